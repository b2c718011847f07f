"""Requests of `logstore acls` to brokers; a refusal becomes `Invalid`."""

from collections.abc import Sequence

from logstore.cli.brokers.cluster_calls import Cluster, check
from logstore.security.acl_filter import ANY, AclFilter
from logstore.security.acls import Acl, Operation, PatternKind, Permission, ResourceKind
from logstore.wire.messages.create_acls import AclCreation, CreateAclsRequest
from logstore.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from logstore.wire.messages.describe_acls import DescribeAclsRequest

DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31


def list_acls(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    request = DescribeAclsRequest(
        wanted.kind or ANY,
        wanted.name,
        wanted.pattern or ANY,
        wanted.principal,
        wanted.host,
        wanted.operation or ANY,
        wanted.permission or ANY,
    )

    def ask() -> list[Acl]:
        response = cluster.any_broker().call(DESCRIBE_ACLS, request)
        check(response.error_code, "list ACLs", response.error_message)
        return sorted(
            Acl(
                ResourceKind(resource.resource_type),
                resource.resource_name,
                PatternKind(resource.pattern_type),
                one.principal,
                one.host,
                Operation(one.operation),
                Permission(one.permission_type),
            )
            for resource in response.resources
            for one in resource.acls
        )

    return cluster.insist(ask)


def add_acls(cluster: Cluster, acls: Sequence[Acl]) -> None:
    """May be repeated: an ACL that is there is made."""
    request = CreateAclsRequest(
        [
            AclCreation(
                one.kind,
                one.name,
                one.pattern,
                one.principal,
                one.host,
                one.operation,
                one.permission,
            )
            for one in acls
        ]
    )

    def ask() -> None:
        response = cluster.any_broker().call(CREATE_ACLS, request)
        for one, result in zip(acls, response.results, strict=True):
            check(result.error_code, f"add {one}", result.error_message)

    cluster.insist(ask)


def remove_acls(cluster: Cluster, acls: Sequence[Acl]) -> None:
    """Remove these very ones; one that is gone is removed."""
    request = DeleteAclsRequest(
        [
            DeleteAclsFilter(
                one.kind,
                one.name,
                one.pattern,
                one.principal,
                one.host,
                one.operation,
                one.permission,
            )
            for one in acls
        ]
    )

    def ask() -> None:
        response = cluster.any_broker().call(DELETE_ACLS, request)
        for one, result in zip(acls, response.filter_results, strict=True):
            check(result.error_code, f"remove {one}", result.error_message)
            for matching in result.matching_acls:
                check(matching.error_code, f"remove {one}", matching.error_message)

    cluster.insist(ask)
