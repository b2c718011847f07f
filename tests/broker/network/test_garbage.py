"""Requests, and connections that end, leave no cycle: nothing waits for the collector of garbage.

What is alive when the collector freezes (`broker.process.collector`), such as a Fetch that waits,
is looked at again after minutes at the earliest. A cycle of it would hold the answer until then.
"""

import gc
from collections.abc import Callable, Iterator, Sequence

import pytest

from logstore.wire.framing.apis import encode_request_frame
from logstore.wire.messages.metadata import MetadataRequest
from tests.broker.running import (
    FETCH,
    METADATA,
    Running,
    batch_of,
    fetch,
    fetch_request,
    produce,
    running_broker,
)
from tests.broker.session_consumer import SessionConsumer
from tests.garbage import garbage, uncollected  # noqa: F401 - a fixture
from tools.full_wire import APIS, Connection

pytestmark = pytest.mark.usefixtures("uncollected")

TOPIC = "left"
SELF_MADE = ("broker.", "logstore.epoch.", "logstore.formats.", "asyncio.selector_events")

ATTEMPTS = 3
"""What a broker of another test leaves may come in between; what an act leaves comes always."""

Act = Callable[[Running, Connection], None]


@pytest.fixture
def running() -> Iterator[Running]:
    with running_broker() as running:
        running.create_topic(TOPIC)
        yield running


def left() -> Sequence[str]:
    """Types of what only the collector would free, those of brokers and connections."""
    kinds = {f"{type(one).__module__}.{type(one).__qualname__}" for one in garbage()}
    return sorted(kind for kind in kinds if kind.startswith(SELF_MADE))


def send_poll(client: Connection) -> None:
    """A Fetch at the end of the log, which waits for long."""
    request = fetch_request(TOPIC, max_wait_ms=60_000)
    client.send_raw(b"".join(encode_request_frame(1, APIS[FETCH], 12, "me", request)))


def poll_that_is_answered(running: Running, client: Connection) -> None:
    send_poll(client)
    running.wait_until(lambda: waits(running))
    produce_by_another(running)
    client.read_frame()


def poll_whose_time_is_over(running: Running, client: Connection) -> None:
    assert not fetch(client, TOPIC, max_wait_ms=20).records


def fetch_that_is_answered_at_once(running: Running, client: Connection) -> None:
    produce(client, TOPIC, batch_of(b"x"))
    assert fetch(client, TOPIC).records


def poll_whose_client_leaves(running: Running, client: Connection) -> None:
    send_poll(client)
    running.wait_until(lambda: waits(running))
    client.close()


def poll_in_a_session_whose_client_leaves(running: Running, client: Connection) -> None:
    consumer = SessionConsumer(client, TOPIC)
    consumer.open(1)
    consumer.send(max_wait_ms=60_000)
    running.wait_until(lambda: waits(running))
    client.close()


def poll_in_a_session_that_is_answered(running: Running, client: Connection) -> None:
    consumer = SessionConsumer(client, TOPIC)
    consumer.open(1)
    consumer.send(max_wait_ms=60_000)
    running.wait_until(lambda: waits(running))
    produce_by_another(running)
    assert consumer.receive().responses


def look_at_metadata(running: Running, client: Connection) -> None:
    client.call(METADATA, MetadataRequest(None), 12)


def waits(running: Running) -> bool:
    """Whether a call waits for its answer."""
    calls = [call for one in running.broker.clients.connections for call in one._calls]
    return any(call.held is not None for call in calls)


@pytest.mark.parametrize(
    "act",
    [
        fetch_that_is_answered_at_once,
        look_at_metadata,
        poll_in_a_session_that_is_answered,
        poll_in_a_session_whose_client_leaves,
        poll_that_is_answered,
        poll_whose_client_leaves,
        poll_whose_time_is_over,
    ],
)
def test_nothing_is_left_to_the_collector(running: Running, act: Act) -> None:
    remains: Sequence[str] = ()
    for _ in range(ATTEMPTS):
        gc.collect()
        with running.connect() as client:
            act(running, client)
        running.wait_until(lambda: not running.broker.clients.connections)
        remains = running.do(left)
        if not remains:
            return
    raise AssertionError(f"left to the collector each time: {remains}")


def test_bytes_of_an_answer_that_has_left_are_not_held_by_its_request(running: Running) -> None:
    with running.connect() as client:
        send_poll(client)
        running.wait_until(lambda: waits(running))
        (call,) = running.do(
            lambda: [call for one in running.broker.clients.connections for call in one._calls]
        )
        produce_by_another(running)
        client.read_frame()

    assert not call.buffers
    assert call.buffers is not None, "it would be answered again"


def produce_by_another(running: Running) -> None:
    with running.connect() as other:
        produce(other, TOPIC, batch_of(b"x"))
