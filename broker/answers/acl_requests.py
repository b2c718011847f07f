"""Requests about ACLs, of which there are none: why they are refused, and which make no sense.

No authorizer is configured, so that they get what a broker of Kafka without one answers. A client
that may not ask is refused for that before, as there.
"""

from collections.abc import Iterable

from broker.answers.error_codes import Refuse
from broker.answers.services import Services
from broker.network.authorizer import CLUSTER, Operation
from broker.network.call import Call
from logstore.errors import Invalid
from logstore.slices import Slices
from logstore.wire.errors import ErrorCode

UNKNOWN = 0
"""Number of the unknown kind of resource, of pattern, of operation and of permission."""

Numbers = tuple[int, int, int, int]
"""Kinds of resource and of pattern, operation and permission of one ACL, or of a filter."""


def refusal(broker: Services, call: Call, operation: Operation) -> Refuse:
    """The error of the request, which needs `operation` on the cluster."""
    if not broker.allows(call, operation, *CLUSTER):
        return Refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not allowed to see or change ACLs")
    return Refuse(
        ErrorCode.SECURITY_DISABLED, "there are no ACLs: this version allows every client all"
    )


def check_known(numbers: Iterable[Numbers]) -> Slices[None]:
    """Raises `Invalid` if one of the numbers is that of the unknown: Kafka hangs up, too."""
    for one in numbers:
        if UNKNOWN in one:
            kind, pattern, operation, permission = one
            raise Invalid(
                f"an ACL has an unknown element: resource_type={kind} pattern_type={pattern} "
                f"operation={operation} permission={permission}"
            )
        yield
