"""DescribeAcls, versions 1 to 3: the ACLs that match a filter. There are none, which is an error.

`kafka-acls --list`, MirrorMaker 2 and user interfaces ask. Not done: rights of clients.
"""

from broker.answers.acl_requests import check_known, refusal
from broker.answers.broker import Broker
from broker.network.authorizer import Operation
from broker.network.call import Call
from logstore.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def describe_acls(broker: Broker, call: Call, request: DescribeAclsRequest) -> DescribeAclsResponse:
    check_known(
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    )
    raise refusal(broker, call, Operation.DESCRIBE)
