"""CreateAcls, versions 1 to 3: each one is refused, since there is nothing that would ask for it.

Not done: rights of clients.
"""

from broker.answers.acl_requests import check_known, refusal
from broker.answers.nested_answers import answer_nested
from broker.answers.services import Services
from broker.network.authorizer import Operation
from broker.network.call import Call
from logstore.slices import Slices
from logstore.wire.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)


def handle(broker: Services, call: Call, request: CreateAclsRequest) -> None:
    broker.turns.begin(call, _answer(broker, call, request))


def _answer(broker: Services, call: Call, request: CreateAclsRequest) -> Slices[None]:
    yield from check_known(
        (one.resource_type, one.resource_pattern_type, one.operation, one.permission_type)
        for one in request.creations
    )
    refused = refusal(broker, call, Operation.ALTER)
    result = AclCreationResult(refused.code, str(refused))
    response = CreateAclsResponse(results=[result] * len(request.creations))
    yield from answer_nested(call, response, ("results",))
