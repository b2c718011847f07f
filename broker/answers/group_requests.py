"""First checks of group requests: the client's rights, and whether we coordinate the group."""

from collections.abc import Callable

from broker.answers.fence_check import check_not_sealed
from broker.answers.services import Services
from broker.groups.coordinator import Coordinator
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from logstore.wire.errors import ErrorCode


def coordinator_for(
    broker: Services,
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


def when_leased(broker: Services, call: Call, step: Callable[[], None]) -> None:
    """Take `step`, which answers from the state of a group, once that cannot be out of date.

    A broker that cannot renew its lease makes a fencing check first (safety rule 9): if it was
    fenced, `step` finds that it coordinates nothing. An answer that waits for a commit needs no
    check: a fenced broker commits nothing.
    """
    if broker.log.has_read_lease:
        step()
        return

    async def look_then_step() -> None:
        error = await check_not_sealed(broker.log)
        if error is not None and not broker.log.fenced.is_set():
            raise error
        step()

    broker.start(call, look_then_step, broker.store_reads)


def answer_read(
    broker: Services, call: Call, answer: Callable[[], None], *, was_fenced: bool
) -> None:
    """Let `answer` leave, which was put together in slices from the state of groups.

    The lease may have run out since the first of them; while it holds, all of them were right. So
    they were if the broker was fenced before the first one: they say that it coordinates nothing.
    """
    if was_fenced or broker.log.has_read_lease:
        answer()
        return

    async def look_then_answer() -> None:
        error = await check_not_sealed(broker.log)
        if error is not None:
            raise error
        answer()

    broker.start(call, look_then_answer, broker.store_reads)


def client_host(call: Call) -> str:
    """As Kafka shows it: a slash, then the address."""
    return f"/{call.connection.peer.rpartition(':')[0]}"
