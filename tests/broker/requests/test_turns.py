"""Every API, asked about many items: the same answer in turns, others in between, any end."""

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from benchmarks.largest_requests import WIDE, of_size, paths
from broker.handlers.served_requests import HANDLERS
from broker.network.call import Call
from broker.network.connection import ClientConnection
from broker.network.turns import SLICE_S, Step, Turns
from broker.requests.way import Loop, Order, Place
from logstore.wire.messages.api_versions import ApiVersionsRequest
from tests.broker.group_calls import coordinating_broker
from tests.broker.running import Running
from tools.full_wire import APIS, Connection

ITEMS = 24
ITEMS_A_SLICE = 4
PATHS = [
    (key, path) for key, path in paths() if HANDLERS[key].way.loop in (Loop.COROUTINE, Loop.TASK)
]
IDS = [f"{APIS[key].name} {path}" for key, path in PATHS]


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with coordinating_broker() as running:
        running.create_topic(WIDE, 3)
        yield running


class CountedTurns(Turns):
    """A turn after every few items, or after none; a test may hold the one of a number."""

    def __init__(self, running: Running, items_a_slice: float) -> None:
        ticks = count()
        super().__init__(
            running.broker.loop,
            running.broker.clients.holds,
            lambda: next(ticks) * SLICE_S / items_a_slice,
        )
        self.held_at: int | None = None
        self.held: Step | None = None
        self.count = 0

    def _wait(self, step: Step) -> None:
        self.count += 1
        if self.count == self.held_at:
            self.held = step
        else:
            super()._wait(step)

    def let_go(self) -> None:
        step, self.held = self.held, None
        assert step is not None
        super()._wait(step)


@pytest.fixture
def with_turns(running: Running) -> Iterator[Callable[[float], CountedTurns]]:
    before = running.broker.turns

    def use(items_a_slice: float) -> CountedTurns:
        turns = CountedTurns(running, items_a_slice)
        running.broker.turns = turns
        return turns

    yield use
    running.broker.turns = before


def answer_of(running: Running, frame: bytes) -> bytes:
    with running.connect() as client:
        client.send_raw(frame)
        return bytes(client.read_frame())


def changes_state(key: int) -> bool:
    """Whether a second request like the first is answered otherwise."""
    way = HANDLERS[key].way
    return way.place is Place.CHANGES or way.order is Order.KEPT


UNCHANGED = [(key, path) for key, path in PATHS if not changes_state(key)]


@pytest.mark.parametrize(
    ("key", "path"), UNCHANGED, ids=[f"{APIS[key].name} {path}" for key, path in UNCHANGED]
)
def test_an_answer_put_together_in_turns_has_the_same_bytes(
    running: Running, with_turns: Callable[[float], CountedTurns], key: int, path: str
) -> None:
    frame = of_size(key, path, ITEMS).frame()
    with_turns(1e9)
    answer_of(running, frame)
    running.wait_until(lambda: not running.broker.being_created)  # topics that it asked about
    at_once = answer_of(running, frame)
    with_turns(ITEMS_A_SLICE)

    assert answer_of(running, frame) == at_once


@pytest.mark.parametrize(("key", "path"), PATHS, ids=IDS)
def test_a_request_may_end_at_any_turn_and_others_are_served_in_between(
    running: Running,
    with_turns: Callable[[float], CountedTurns],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    key: int,
    path: str,
) -> None:
    answered: list[int] = []
    put_in_order = ClientConnection.answered

    def noted(connection: ClientConnection, call: Call) -> None:
        if not connection.is_closed:  # of an attempt before, whose task goes on
            answered.append(call.api.key)
        put_in_order(connection, call)

    monkeypatch.setattr(ClientConnection, "answered", noted)
    frame = of_size(key, path, ITEMS).frame()
    turns = with_turns(ITEMS_A_SLICE)
    answer_of(running, frame)
    for number in range(1, turns.count + 1):
        answered.clear()
        turns = with_turns(ITEMS_A_SLICE)
        turns.held_at = number
        notices = HANDLERS[key].way.order is Order.FREE
        if not closed_at_a_turn(running, turns, frame, lambda: key in answered, notices=notices):
            break  # it has fewer turns than the one before, which changed something

    assert not [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]


def closed_at_a_turn(
    running: Running,
    turns: CountedTurns,
    frame: bytes,
    is_answered: Callable[[], bool],
    *,
    notices: bool,
) -> bool:
    """Close the connection of a request when it waits for the turn that is held, then let it go.

    Returns whether it came to that turn. `notices`: a connection whose later requests wait is not
    read, so the end of it is noticed after the request.
    """
    with running.connect() as client, running.connect() as other:
        client.send_raw(frame)
        running.wait_until(lambda: turns.held is not None or is_answered())
        if running.do(lambda: turns.held is None):
            return False
        assert is_served(other)
    if notices:
        running.wait_until(lambda: not running.broker.clients.connections)
    running.do(turns.let_go)
    running.wait_until(lambda: not running.broker.clients.connections)
    with running.connect() as other:
        assert is_served(other)
    return True


def is_served(client: Connection) -> bool:
    return bool(client.call(18, ApiVersionsRequest(), 0).error_code == 0)
