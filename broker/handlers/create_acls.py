"""CreateAcls, versions 1 to 3: each ACL has its own outcome; one that is there already is made.

When the answer leaves, this broker goes by the new ones; the others do within a second.
"""

from broker.answers.acl_changes import added, audit_acls, change_shards
from broker.answers.acl_requests import check_asked, check_known, parse_acl, shown
from broker.answers.broker import Broker
from broker.answers.client_changes import log_change
from broker.answers.decisions.budgets import over_budget
from broker.answers.decisions.refuse import Refuse
from broker.answers.error_codes import code_of
from broker.network.authorizer import Operation
from broker.network.call import Call
from broker.requests.refusals import errors_in
from logstore.protocol.access.acls import Decide
from logstore.security.acl_index import shard_of
from logstore.security.acls import Acl
from logstore.wire.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)


async def create_acls(broker: Broker, call: Call, request: CreateAclsRequest) -> CreateAclsResponse:
    async for one in call.each(request.creations):
        check_known(
            one.resource_type, one.resource_pattern_type, one.operation, one.permission_type
        )
    refusal = over_budget(call.api.key, len(request.creations))
    try:
        check_asked(broker, call, Operation.ALTER)
    except Refuse as error:
        refusal = error
    results: list[AclCreationResult] = []
    wanted: dict[str, dict[Acl, list[AclCreationResult]]] = {}
    async for one in call.each(request.creations):
        result = AclCreationResult()
        results.append(result)
        with errors_in(result):
            if refusal is not None:
                raise refusal
            acl = parse_acl(one)
            wanted.setdefault(shard_of(acl), {}).setdefault(acl, []).append(result)
    outcome = await change_shards(
        broker, call, {shard: _adding(frozenset(acls)) for shard, acls in wanted.items()}
    )
    async for change in call.each(outcome.made.values()):
        if new := added(change):
            log_change(call, "ACLs made: count=%d acls=%s", len(new), shown(new))
            audit_acls(broker, call, made=new)
    for shard, failure in outcome.failed.items():
        async for of_acl in call.each(wanted[shard].values()):
            for result in of_acl:
                result.error_code, result.error_message = code_of(failure), str(failure)
    return CreateAclsResponse(results=results)


def _adding(acls: frozenset[Acl]) -> Decide:
    return lambda known: known | acls
