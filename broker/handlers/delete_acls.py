"""DeleteAcls, versions 1 to 3: the ACLs that match any of some filters, answered filter by filter.

When the answer leaves, this broker goes by what is left; the others do within a second. An ACL that
another client makes at the same time is not looked at.
"""

from collections.abc import Mapping

from broker.answers.acl_changes import audit_acls, change_shards, removed
from broker.answers.acl_requests import check_asked, check_known, parse_filter, shown
from broker.answers.broker import Broker
from broker.answers.client_changes import log_change
from broker.answers.decisions.budgets import over_budget
from broker.answers.decisions.refuse import Refuse
from broker.answers.error_codes import code_of
from broker.network.authorizer import Operation
from broker.network.call import Call
from broker.requests.refusals import errors_in
from logstore.errors import LogstoreError
from logstore.protocol.access.acls import Decide
from logstore.protocol.rows.acls import AclShards, read_acls
from logstore.security.acl_filter import AclFilter
from logstore.security.acl_index import shard_of
from logstore.security.acls import Acl
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

COMPARED_MAX = 5_000_000
"""ACLs that all filters of a request are held against, some 0.6 us each."""

FOUND_MAX = 100_000
"""ACLs of an answer: one may match many filters."""


async def delete_acls(broker: Broker, call: Call, request: DeleteAclsRequest) -> DeleteAclsResponse:
    async for one in call.each(request.filters):
        check_known(
            one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type
        )
    refusal: LogstoreError | None = over_budget(call.api.key, len(request.filters))
    shards: AclShards = {}
    try:
        check_asked(broker, call, Operation.ALTER)
        shards = await broker.log.runner.run(read_acls())
        _check_budget(len(request.filters), shards)
    except LogstoreError as error:
        refusal = error
    results: list[DeleteAclsFilterResult] = []
    found: list[list[Acl]] = []
    count = 0
    async for one in call.each(request.filters):
        result = DeleteAclsFilterResult()
        results.append(result)
        acls: list[Acl] = []
        with errors_in(result):
            if refusal is not None:
                raise refusal
            acls = await _found(call, parse_filter(one), shards)
            if count + len(acls) > FOUND_MAX:
                acls = []
                raise Refuse(
                    ErrorCode.POLICY_VIOLATION,
                    f"the filters match too many ACLs: most={FOUND_MAX}; delete fewer at once",
                )
        count += len(acls)
        found.append(acls)
    failed = await _delete(broker, call, found)
    async for result, acls in call.each(zip(results, found, strict=True)):
        async for acl in call.each(acls):
            result.matching_acls.append(_shown(acl, failed.get(shard_of(acl))))
    return DeleteAclsResponse(filter_results=results)


def _check_budget(filter_count: int, shards: AclShards) -> None:
    compared = filter_count * sum(len(shard.group.acls) for shard in shards.values())
    if compared > COMPARED_MAX:
        raise Refuse(
            ErrorCode.POLICY_VIOLATION,
            f"the request asks for too much work: filters={filter_count} times ACLs is "
            f"{compared}, most={COMPARED_MAX}; split it up",
        )


async def _found(call: Call, wanted: AclFilter, shards: AclShards) -> list[Acl]:
    found: list[Acl] = []
    for shard in shards.values():
        async for acl in call.each(shard.group.acls):
            if wanted.matches(acl):
                found.append(acl)
    return found


async def _delete(
    broker: Broker, call: Call, found: list[list[Acl]]
) -> Mapping[str, LogstoreError]:
    """Returns the error of each shard whose ACLs could not be deleted."""
    unwanted: dict[str, set[Acl]] = {}
    for acls in found:
        async for acl in call.each(acls):
            unwanted.setdefault(shard_of(acl), set()).add(acl)
    outcome = await change_shards(
        broker, call, {shard: _without(frozenset(acls)) for shard, acls in unwanted.items()}
    )
    async for change in call.each(outcome.made.values()):
        if gone := removed(change):
            log_change(call, "ACLs deleted: count=%d acls=%s", len(gone), shown(gone))
            audit_acls(broker, call, deleted=gone)
    return outcome.failed


def _without(acls: frozenset[Acl]) -> Decide:
    return lambda known: known - acls


def _shown(acl: Acl, error: LogstoreError | None) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        0 if error is None else code_of(error),
        None if error is None else str(error),
        acl.kind,
        acl.name,
        acl.pattern,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )
