"""The way of a request: handlers of a few lines take the places of two APIs on a real broker."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from broker.answers.decisions.refuse import Refuse
from broker.answers.thread_work import run_in_thread
from broker.handlers import dispatch
from broker.handlers.served_requests import HANDLERS
from broker.network.authorizer import Operation
from broker.network.call import Call
from broker.requests.freeing import AT_ONCE
from broker.requests.table import coroutine, plain, task
from broker.requests.way import By, ClusterRight, LeaseCheck, Order, Place
from logstore.errors import Fenced, Invalid, LogstoreError, OutcomeUnknown
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.apis import encode_request_frame
from logstore.wire.framing.client import Connection
from logstore.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
    AlterReplicaLogDirTopicResult,
)
from logstore.wire.messages.api_versions import ApiVersionsRequest
from logstore.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from logstore.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tests.broker.held_turns import HeldTurns
from tests.broker.network.test_authorizer import deny
from tests.broker.running import Running
from tools.full_wire import APIS

LIST, MOVE = 74, 34
"""The APIs whose places are taken: the answer of one has an error code of its own."""

Answer = ListConfigResourcesResponse
Handler = Callable[[Any, Call, Any], Coroutine[Any, Any, Any]]


class Served:
    """The place of an API, and what its handler did."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.seen: list[Any] = []

    def put(self, row: tuple[int, Any]) -> None:
        self._monkeypatch.setitem(HANDLERS, *row)

    def coroutine(
        self,
        handle: Handler,
        *,
        key: int = LIST,
        rights: ClusterRight | By = By.NOTHING,
        order: Order = Order.FREE,
        lease: LeaseCheck = LeaseCheck.NONE,
    ) -> None:
        self.put(coroutine(key, handle, rights, order, lease))


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Served:
    return Served(monkeypatch)


@pytest.fixture
def gate(running: Running) -> asyncio.Event:
    """Handlers wait for it."""
    return asyncio.Event()


def ask(client: Connection) -> Any:
    return client.call(LIST, ListConfigResourcesRequest(), 1)


def send(client: Connection, count: int) -> None:
    """So many requests at once, none of which is read yet."""
    frame = b"".join(encode_request_frame(1, APIS[LIST], 1, "me", ListConfigResourcesRequest()))
    client.send_raw(frame * count)  # type: ignore[attr-defined]


def test_a_handler_that_never_waits_is_answered_without_a_task(
    client: Connection, served: Served
) -> None:
    async def answer(broker: Any, call: Call, request: Any) -> Answer:
        served.seen.append(asyncio.current_task())
        return Answer(0, 0, [ConfigResource("n", 2)])

    served.coroutine(answer)

    assert [one.resource_name for one in ask(client).config_resources] == ["n"]
    assert served.seen == [None]


def test_a_handler_goes_on_in_a_task_after_its_first_wait(
    running: Running, client: Connection, served: Served, gate: asyncio.Event
) -> None:
    async def answer(broker: Any, call: Call, request: Any) -> Answer:
        served.seen.append(asyncio.current_task())
        await gate.wait()
        served.seen.append(asyncio.current_task())
        return Answer()

    served.coroutine(answer)
    send(client, 1)
    running.wait_until(lambda: bool(served.seen))
    running.do(gate.set)
    client.read_frame()  # type: ignore[attr-defined]

    assert served.seen[0] is None
    assert isinstance(served.seen[1], asyncio.Task)


def test_a_large_request_has_a_task_of_its_own(
    client: Connection, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the decoding ends when the handler has begun, and takes its time-outs along."""
    monkeypatch.setattr(dispatch, "AT_ONCE_BYTES_MAX", 8)
    decodings: list[Any] = []

    async def noted(broker: Any, call: Call, work: Any) -> Any:
        decodings.append(asyncio.current_task())
        return await run_in_thread(broker, call, work)

    monkeypatch.setattr("broker.handlers.dispatch.run_in_thread", noted)

    async def answer(broker: Any, call: Call, request: Any) -> Answer:
        served.seen.append(asyncio.current_task())
        return Answer()

    served.coroutine(answer)
    ask(client)

    assert decodings != [None]
    assert served.seen[0] not in (None, *decodings)


@pytest.mark.parametrize(("order", "begun"), [(Order.FREE, 2), (Order.KEPT, 1)])
def test_a_request_waits_for_the_one_before_where_their_order_is_kept(
    running: Running,
    client: Connection,
    served: Served,
    gate: asyncio.Event,
    order: Order,
    begun: int,
) -> None:
    async def answer(broker: Any, call: Call, request: Any) -> Answer:
        served.seen.append(call)
        await gate.wait()
        return Answer()

    served.coroutine(answer, order=order)
    send(client, 2)
    running.wait_until(lambda: len(served.seen) >= begun)

    assert running.do(lambda: len(served.seen)) == begun
    running.do(gate.set)
    for _ in range(2):
        client.read_frame()  # type: ignore[attr-defined]


@pytest.mark.parametrize("waits", [False, True])
def test_a_handler_that_waits_for_a_commit_alone_lets_later_requests_begin(
    running: Running, client: Connection, served: Served, gate: asyncio.Event, waits: bool
) -> None:
    async def answer(broker: Any, call: Call, request: Any) -> Answer:
        served.seen.append("begun")
        if waits:
            await broker.turns.turn()
        call.let_later_begin()
        await gate.wait()
        return Answer()

    served.coroutine(answer, order=Order.KEPT)
    send(client, 2)
    running.wait_until(lambda: len(served.seen) == 2)
    running.do(gate.set)
    for _ in range(2):
        client.read_frame()  # type: ignore[attr-defined]


def test_a_refusal_of_the_whole_request_is_answered(client: Connection, served: Served) -> None:
    async def refuse(broker: Any, call: Call, request: Any) -> Answer:
        raise Refuse(ErrorCode.POLICY_VIOLATION, "too much")

    served.coroutine(refuse)

    assert ask(client).error_code == ErrorCode.POLICY_VIOLATION


def test_a_refusal_that_a_version_cannot_say_closes_the_connection(
    running: Running, client: Connection
) -> None:
    """Version 0 of ElectLeaders has codes of partitions alone: none would look like success."""
    deny(running, Operation.ALTER)
    request = ElectLeadersRequest(0, [TopicPartitions("t", [0])], 1_000)

    assert client.call(43, request, 1).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(OutcomeUnknown):
        client.call(43, request, 0)


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (MOVE, Refuse(ErrorCode.POLICY_VIOLATION, "its answer has no place for a code")),
        (LIST, Invalid("senseless")),
        (LIST, ZeroDivisionError("a fault of ours")),
    ],
)
@pytest.mark.parametrize("waits", [False, True])
def test_an_error_ends_the_connection_of_its_client_alone(
    running: Running, client: Connection, served: Served, key: int, error: Exception, waits: bool
) -> None:
    async def fail(broker: Any, call: Call, request: Any) -> Answer:
        if waits:
            await broker.turns.turn()
        raise error

    served.coroutine(fail, key=key)
    request = ListConfigResourcesRequest() if key == LIST else AlterReplicaLogDirsRequest()
    with running.connect() as other, pytest.raises(OutcomeUnknown):
        other.call(key, request, 1)

    assert client.call(18, ApiVersionsRequest(), 0).error_code == 0


def test_a_client_without_the_right_of_the_row_does_not_reach_the_handler(
    running: Running, client: Connection, served: Served
) -> None:
    async def answer(broker: Any, call: Call, request: Any) -> Answer:
        served.seen.append(call)
        return Answer()

    served.coroutine(answer, rights=ClusterRight(Operation.DESCRIBE, "not allowed"))
    assert ask(client).error_code == 0
    deny(running, Operation.DESCRIBE)

    assert ask(client).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert len(served.seen) == 1


@pytest.mark.parametrize("is_task", [False, True])
def test_work_for_a_closed_connection_ends_at_its_next_turn_unless_it_changes_the_cluster(
    running: Running, served: Served, is_task: bool
) -> None:
    ends: list[str] = []

    async def answer(broker: Any, call: Call, request: Any) -> Answer:
        served.seen.append(call)
        try:
            async for number in call.each(range(8)):
                ends.append(str(number))
        finally:
            ends.append("end")
        return Answer()

    if is_task:
        served.put(task(LIST, answer, By.NOTHING, Order.FREE, LeaseCheck.NONE, Place.CHANGES))
    else:
        served.coroutine(answer)
    before, held = running.broker.turns, HeldTurns(running)
    running.broker.turns = held
    try:
        with running.connect() as client:
            send(client, 1)
            running.wait_until(lambda: bool(held.steps))
        running.wait_until(lambda: served.seen[0].connection.is_closed)
        running.do(held.let_go)
        running.wait_until(lambda: "end" in ends)
    finally:
        running.broker.turns = before

    assert len(ends) == 9 if is_task else len(ends) < 9


def test_the_items_of_a_request_are_let_go_of_some_at_a_time(
    running: Running, client: Connection, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "AT_ONCE_BYTES_MAX", AT_ONCE)

    async def answer(broker: Any, call: Call, request: Any) -> AlterReplicaLogDirsResponse:
        served.seen.append((request, request.dirs[0], request.dirs[0].topics[0]))
        return AlterReplicaLogDirsResponse(0, [AlterReplicaLogDirTopicResult("t", [])])

    served.coroutine(answer, key=MOVE)
    topic = AlterReplicaLogDirTopic("t", list(range(AT_ONCE + 1)))
    client.call(MOVE, AlterReplicaLogDirsRequest([AlterReplicaLogDir("/", [topic])]), 2)
    running.do(lambda: None)

    ((request, _, topic),) = served.seen
    assert (request.dirs, topic.partitions) == ([], [])


def test_each_step_is_noted_as_its_clients(
    running: Running, client: Connection, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[str] = []

    async def answer(broker: Any, call: Call, request: Any) -> Answer:
        for _ in range(3):
            await broker.turns.turn()
        return Answer()

    served.coroutine(answer)
    clients = running.broker.clients
    monkeypatch.setattr(clients, "note", lambda call, took_s: noted.append(call.api.name))
    ask(client)

    assert noted.count(APIS[LIST].name) == 3


class Doubtful:
    """The log of a broker that has no read lease, as far as fencing checks go."""

    def __init__(self, running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: LogstoreError | None = None
        self.check_count = 0
        self.has_read_lease = False
        monkeypatch.setattr(
            type(running.broker.log), "has_read_lease", property(lambda _: self.has_read_lease)
        )
        monkeypatch.setattr(running.broker.log, "check_not_sealed", self._check)

    async def _check(self) -> None:
        self.check_count += 1
        if self.error is not None:
            raise self.error


@pytest.fixture
def doubtful(running: Running, monkeypatch: pytest.MonkeyPatch) -> Doubtful:
    return Doubtful(running, monkeypatch)


@pytest.mark.parametrize(
    ("lease", "checks"),
    [(LeaseCheck.NONE, 0), (LeaseCheck.BEFORE, 1), (LeaseCheck.AROUND, 2)],
)
def test_a_broker_without_a_read_lease_checks_that_it_is_not_fenced(
    client: Connection, served: Served, doubtful: Doubtful, lease: LeaseCheck, checks: int
) -> None:
    async def answer(broker: Any, call: Call, request: Any) -> Answer:
        served.seen.append(doubtful.check_count)
        return Answer()

    served.coroutine(answer, lease=lease)
    ask(client)

    assert served.seen == [min(checks, 1)]
    assert doubtful.check_count == checks


def test_a_lease_that_runs_out_while_an_answer_is_made_is_noticed(
    client: Connection, served: Served, doubtful: Doubtful
) -> None:
    """Also where the handler never waits: the check begins a task."""
    doubtful.has_read_lease = True

    async def answer(broker: Any, call: Call, request: Any) -> Answer:
        doubtful.has_read_lease = False
        doubtful.error = Fenced("replaced")
        return Answer()

    served.coroutine(answer, lease=LeaseCheck.AROUND)
    with pytest.raises(OutcomeUnknown):
        ask(client)

    assert doubtful.check_count == 1


@pytest.mark.parametrize("is_plain", [False, True])
def test_an_answer_does_not_leave_where_the_fencing_check_fails(
    client: Connection, served: Served, doubtful: Doubtful, is_plain: bool
) -> None:
    doubtful.error = OutcomeUnknown("the store does not answer")

    async def answer(broker: Any, call: Call, request: Any) -> Answer:
        served.seen.append(call)
        return Answer()

    def answer_at_once(broker: Any, call: Call, request: Any) -> Answer:
        served.seen.append(call)
        return Answer()

    if is_plain:
        served.put(plain(LIST, answer_at_once, By.NOTHING, Order.FREE, LeaseCheck.BEFORE))
    else:
        served.coroutine(answer, lease=LeaseCheck.BEFORE)
    with pytest.raises(OutcomeUnknown):
        ask(client)

    assert not served.seen


def test_a_plain_handler_may_answer_later(
    running: Running, client: Connection, served: Served
) -> None:
    def keep(broker: Any, call: Call, request: Any) -> None:
        served.seen.append(call)

    served.put(plain(LIST, keep, By.NOTHING, Order.FREE, LeaseCheck.NONE))
    send(client, 1)
    running.wait_until(lambda: bool(served.seen))
    running.do(lambda: served.seen[0].answer(Answer(0, ErrorCode.NONE)))

    assert client.read_frame()  # type: ignore[attr-defined]
