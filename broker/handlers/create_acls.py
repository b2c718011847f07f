"""CreateAcls, versions 1 to 3: each one is refused, since there is nothing that would ask for it.

Not done: rights of clients.
"""

from broker.answers.acl_requests import check_known, refusal
from broker.answers.broker import Broker
from broker.network.authorizer import Operation
from broker.network.call import Call
from logstore.wire.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)


async def create_acls(broker: Broker, call: Call, request: CreateAclsRequest) -> CreateAclsResponse:
    async for acl in call.each(request.creations):
        check_known(
            acl.resource_type, acl.resource_pattern_type, acl.operation, acl.permission_type
        )
    refused = refusal(broker, call, Operation.ALTER)
    result = AclCreationResult(refused.code, str(refused))
    return CreateAclsResponse(results=[result] * len(request.creations))
