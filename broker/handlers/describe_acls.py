"""DescribeAcls, versions 1 to 3: the ACLs that match a filter. There are none, which is an error.

`kafka-acls --list`, MirrorMaker 2 and user interfaces ask. Not done: rights of clients.
"""

from broker.answers.acl_requests import check_known, refusal
from broker.answers.services import Services
from broker.network.authorizer import Operation
from broker.network.call import Call
from logstore.slices import finish
from logstore.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def handle(broker: Services, call: Call, request: DescribeAclsRequest) -> None:
    kinds = request.resource_type_filter, request.pattern_type_filter
    finish(check_known([(*kinds, request.operation, request.permission_type)]))
    refused = refusal(broker, call, Operation.DESCRIBE)
    call.answer(DescribeAclsResponse(0, refused.code, str(refused)))
