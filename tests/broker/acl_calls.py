"""Requests about ACLs, and brokers that go by them."""

from collections.abc import Sequence

from logstore.config.authorizer_settings import STANDARD_AUTHORIZER
from logstore.security.acls import Acl, Operation, PatternKind, Permission, ResourceKind
from logstore.wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest
from logstore.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
)
from logstore.wire.messages.describe_acls import DescribeAclsRequest
from tools.full_wire import Connection

DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31
ANY, MATCH = 1, 2
ADMIN, ALICE = "User:admin", "User:alice"
SECURED = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": ADMIN}


def acl(
    name: str,
    operation: Operation = Operation.READ,
    permission: Permission = Permission.ALLOW,
    *,
    kind: ResourceKind = ResourceKind.TOPIC,
    pattern: PatternKind = PatternKind.LITERAL,
    principal: str = ALICE,
    host: str = "*",
) -> Acl:
    return Acl(kind, name, pattern, principal, host, operation, permission)


def creation(one: Acl) -> AclCreation:
    return AclCreation(
        one.kind, one.name, one.pattern, one.principal, one.host, one.operation, one.permission
    )


def create(client: Connection, *acls: Acl, version: int = 3) -> Sequence[AclCreationResult]:
    request = CreateAclsRequest([creation(one) for one in acls])
    results: list[AclCreationResult] = client.call(CREATE_ACLS, request, version).results
    return results


def make(client: Connection, *acls: Acl) -> None:
    assert [one.error_code for one in create(client, *acls)] == [0] * len(acls)


def filter_of(
    name: str | None = None,
    *,
    kind: int = ANY,
    pattern: int = ANY,
    principal: str | None = None,
    host: str | None = None,
    operation: int = ANY,
    permission: int = ANY,
) -> DeleteAclsFilter:
    return DeleteAclsFilter(kind, name, pattern, principal, host, operation, permission)


def exactly(one: Acl) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        one.kind, one.name, one.pattern, one.principal, one.host, one.operation, one.permission
    )


def delete(
    client: Connection, *filters: DeleteAclsFilter, version: int = 3
) -> Sequence[DeleteAclsFilterResult]:
    request = DeleteAclsRequest(list(filters))
    results: list[DeleteAclsFilterResult] = client.call(
        DELETE_ACLS, request, version
    ).filter_results
    return results


def acls_in(result: DeleteAclsFilterResult) -> set[Acl]:
    return {
        acl(
            one.resource_name,
            Operation(one.operation),
            Permission(one.permission_type),
            kind=ResourceKind(one.resource_type),
            pattern=PatternKind(one.pattern_type),
            principal=one.principal,
            host=one.host,
        )
        for one in result.matching_acls
    }


def describe(
    client: Connection, wanted: DeleteAclsFilter | None = None, *, version: int = 3
) -> set[Acl]:
    asked = filter_of() if wanted is None else wanted
    request = DescribeAclsRequest(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )
    response = client.call(DESCRIBE_ACLS, request, version)
    assert response.error_code == 0, response.error_message
    return {
        acl(
            resource.resource_name,
            Operation(one.operation),
            Permission(one.permission_type),
            kind=ResourceKind(resource.resource_type),
            pattern=PatternKind(resource.pattern_type),
            principal=one.principal,
            host=one.host,
        )
        for resource in response.resources
        for one in resource.acls
    }
