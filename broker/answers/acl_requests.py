"""Requests about ACLs, of which there are none: why they are refused, and which make no sense.

No authorizer is configured, so that they get what a broker of Kafka without one answers. A client
that may not ask is refused for that before, as there.
"""

from broker.answers.broker import Broker
from broker.answers.error_codes import Refuse
from broker.network.authorizer import CLUSTER, Operation
from broker.network.call import Call
from logstore.errors import Invalid
from logstore.wire.errors import ErrorCode

UNKNOWN = 0
"""Number of the unknown kind of resource, of pattern, of operation and of permission."""


def refusal(broker: Broker, call: Call, operation: Operation) -> Refuse:
    """The error of the request, which needs `operation` on the cluster."""
    if not broker.allows(call, operation, *CLUSTER):
        return Refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not allowed to see or change ACLs")
    return Refuse(
        ErrorCode.SECURITY_DISABLED, "there are no ACLs: this version allows every client all"
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
