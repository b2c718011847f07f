"""First checks of group requests: the client's rights, and whether we coordinate the group."""

from broker.answers.broker import Broker
from broker.groups.coordinator import Coordinator
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from logstore.wire.errors import ErrorCode


def coordinator_for(
    broker: Broker,
    call: Call,
    group_id: str,
    operation: Operation,
    *,
    may_be_nameless: bool = False,
) -> Coordinator | ErrorCode:
    """The group's coordinator, loaded, or why there is none for this client.

    The group with an empty name has no members: old clients commit to it. It is known to requests
    about offsets, and to those that describe or delete groups (`may_be_nameless`).
    """
    if not broker.allows(call, operation, ResourceKind.GROUP, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if not group_id and not may_be_nameless:
        return ErrorCode.INVALID_GROUP_ID
    return broker.groups.find(group_id)


def client_host(call: Call) -> str:
    """As Kafka shows it: a slash, then the address."""
    return f"/{call.connection.peer.rpartition(':')[0]}"
