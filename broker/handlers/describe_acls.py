"""DescribeAcls, versions 1 to 3: the ACLs that match a filter, as this broker goes by them."""

from broker.answers.acl_requests import check_asked, check_known, parse_filter
from broker.answers.broker import Broker
from broker.answers.decisions.refuse import Refuse
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from logstore.security.acls import PatternKind
from logstore.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


async def describe_acls(
    broker: Broker, call: Call, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    check_known(
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    )
    check_asked(broker, call, Operation.DESCRIBE)
    resources: dict[tuple[ResourceKind, PatternKind, str], DescribeAclsResource] = {}
    try:
        wanted = parse_filter(request)
    except Refuse:  # as Kafka: what it does not know matches nothing
        return DescribeAclsResponse()
    for shard in broker.log.rows.acls.values():
        async for acl in call.each(shard.group.acls):
            if not wanted.matches(acl):
                continue
            key = acl.kind, acl.pattern, acl.name
            resource = resources.get(key)
            if resource is None:
                resource = DescribeAclsResource(acl.kind, acl.name, acl.pattern)
                resources[key] = resource
            resource.acls.append(
                AclDescription(acl.principal, acl.host, acl.operation, acl.permission)
            )
    return DescribeAclsResponse(resources=list(resources.values()))
