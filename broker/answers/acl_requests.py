"""ACLs as requests name, filter and show them, checked as Kafka does. Pure but for `check_asked`.

Without an authorizer there are none, and requests get what a broker of Kafka without one answers. A
client that may not ask is refused for that before, as there.
"""

from collections.abc import Sequence

from broker.answers.broker import Broker
from broker.answers.decisions.refuse import Refuse
from broker.network.authorizer import CLUSTER, Operation, ResourceKind
from broker.network.call import Call
from logstore.errors import Invalid
from logstore.security.acl_filter import ANY, MATCH, AclFilter
from logstore.security.acls import WILDCARD, Acl, PatternKind, Permission, is_address
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.create_acls import AclCreation
from logstore.wire.messages.delete_acls import DeleteAclsFilter
from logstore.wire.messages.describe_acls import DescribeAclsRequest

UNKNOWN = 0
"""Number of the unknown kind of resource, of pattern, of operation and of permission."""

_KINDS = {int(one): one for one in ResourceKind}
_PATTERNS = {int(one): one for one in PatternKind}
_OPERATIONS = {int(one): one for one in Operation}
_PERMISSIONS = {int(one): one for one in Permission}


def check_asked(broker: Broker, call: Call, operation: Operation) -> None:
    """Raises `Refuse` where the request, which needs `operation` on the cluster, is refused."""
    if not broker.allows(call, operation, *CLUSTER):
        raise Refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not allowed to see or change ACLs")
    if not broker.has_acls:
        raise Refuse(
            ErrorCode.SECURITY_DISABLED,
            "there are no ACLs: brokers without authorizer.class.name allow every client all",
        )


def check_known(kind: int, pattern: int, operation: int, permission: int) -> None:
    """Raises `Invalid` if one of the numbers is that of the unknown: Kafka hangs up, too.

    They are kinds of resource and of pattern, operation and permission of one ACL, or of a filter.
    """
    if UNKNOWN in (kind, pattern, operation, permission):
        raise Invalid(
            f"an ACL has an unknown element: resource_type={kind} pattern_type={pattern} "
            f"operation={operation} permission={permission}"
        )


def parse_acl(asked: AclCreation) -> Acl:
    """Raises `Refuse`. More than Kafka: a host that no client has, a principal without a kind."""
    kind, pattern = _KINDS.get(asked.resource_type), _PATTERNS.get(asked.resource_pattern_type)
    operation, permission = (
        _OPERATIONS.get(asked.operation),
        _PERMISSIONS.get(asked.permission_type),
    )
    if kind is ResourceKind.CLUSTER and asked.resource_name != CLUSTER.name:
        raise _invalid(f"the only name of the cluster is {CLUSTER.name}")
    if not asked.resource_name:
        raise _invalid("the name of a resource is empty; write * for all")
    if kind is None:
        raise _invalid(f"an ACL is for one kind of resource: resource_type={asked.resource_type}")
    if pattern is None:
        raise _invalid(
            "the pattern of an ACL is LITERAL or PREFIXED: "
            f"resource_pattern_type={asked.resource_pattern_type}"
        )
    if operation is None:
        raise _invalid(f"an ACL is for one operation, or ALL: operation={asked.operation}")
    if permission is None:
        raise _invalid(f"an ACL is ALLOW or DENY: permission_type={asked.permission_type}")
    kind_of_principal, separator, name = asked.principal.partition(":")
    if not (kind_of_principal and separator and name):
        raise _invalid(f"no principal: {asked.principal!r}; write User:NAME, or User:* for all")
    if asked.host != WILDCARD and not is_address(asked.host):
        raise _invalid(f"no address: host={asked.host!r}; write an IP address, or * for all")
    return Acl(
        kind, asked.resource_name, pattern, asked.principal, asked.host, operation, permission
    )


def parse_filter(asked: DeleteAclsFilter | DescribeAclsRequest) -> AclFilter:
    """Raises `Refuse` for a number that has no meaning."""
    kind, pattern = asked.resource_type_filter, asked.pattern_type_filter
    for number, known in (
        (kind, _KINDS),
        (pattern, {**_PATTERNS, MATCH: None}),
        (asked.operation, _OPERATIONS),
        (asked.permission_type, _PERMISSIONS),
    ):
        if number != ANY and number not in known:
            raise _invalid(f"a filter has an unknown element: number={number}")
    return AclFilter(
        _KINDS.get(kind),
        asked.resource_name_filter,
        _PATTERNS.get(pattern),
        pattern == MATCH,
        asked.principal_filter,
        asked.host_filter,
        _OPERATIONS.get(asked.operation),
        _PERMISSIONS.get(asked.permission_type),
    )


def shown(acls: Sequence[Acl]) -> str:
    """Returns the first few of them for a log line."""
    more = len(acls) - SHOWN_MAX
    texts = "; ".join(map(str, acls[:SHOWN_MAX]))
    return f"{texts}; {more} more" if more > 0 else texts


SHOWN_MAX = 5


def _invalid(text: str) -> Refuse:
    return Refuse(ErrorCode.INVALID_REQUEST, text)
