"""DeleteAcls, versions 1 to 3: the ACLs that match any of some filters; each filter is refused.

Not done: rights of clients.
"""

from broker.answers.acl_requests import check_known, refusal
from broker.answers.broker import Broker
from broker.network.authorizer import Operation
from broker.network.call import Call
from logstore.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


async def delete_acls(broker: Broker, call: Call, request: DeleteAclsRequest) -> DeleteAclsResponse:
    async for acl in call.each(request.filters):
        check_known(
            acl.resource_type_filter, acl.pattern_type_filter, acl.operation, acl.permission_type
        )
    refused = refusal(broker, call, Operation.ALTER)
    result = DeleteAclsFilterResult(refused.code, str(refused))
    return DeleteAclsResponse(filter_results=[result] * len(request.filters))
