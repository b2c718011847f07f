"""DeleteAcls, versions 1 to 3: the ACLs that match any of some filters; each filter is refused.

Not done: rights of clients.
"""

from broker.answers.acl_requests import check_known, refusal
from broker.answers.nested_answers import answer_nested
from broker.answers.services import Services
from broker.network.authorizer import Operation
from broker.network.call import Call
from logstore.slices import Slices
from logstore.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


def handle(broker: Services, call: Call, request: DeleteAclsRequest) -> None:
    broker.turns.begin(call, _answer(broker, call, request))


def _answer(broker: Services, call: Call, request: DeleteAclsRequest) -> Slices[None]:
    yield from check_known(
        (one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type)
        for one in request.filters
    )
    refused = refusal(broker, call, Operation.ALTER)
    result = DeleteAclsFilterResult(refused.code, str(refused))
    response = DeleteAclsResponse(filter_results=[result] * len(request.filters))
    yield from answer_nested(call, response, ("filter_results",))
