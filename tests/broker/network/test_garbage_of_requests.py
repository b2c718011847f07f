"""Requests about many items, of every API, leave none of them to the collector of garbage.

One of 1 MiB has 50,000 items. In a cycle they would stay for minutes, and then hold the event loop
for the seconds that it takes to find them (`broker.process.collector`).
"""

import gc
from collections import Counter
from collections.abc import Iterator

import pytest

from benchmarks.largest_requests import WIDE, of_size, paths
from broker.handlers import dispatch
from broker.handlers.served_requests import HANDLERS
from tests.broker.running import Running, running_broker
from tests.garbage import garbage, uncollected  # noqa: F401 - a fixture
from tools.full_wire import APIS, Connection

pytestmark = pytest.mark.usefixtures("uncollected")

ITEMS = 600
"""More than are answered in one slice."""
SELF_MADE = ("broker.", "logstore.")
ATTEMPTS = 3
"""What others leave may come in between; what a request leaves comes always."""
PATHS = [(key, path) for key, path in paths() if key in HANDLERS]


@pytest.fixture(autouse=True)
def decoded_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """As larger frames are."""
    monkeypatch.setattr(dispatch, "AT_ONCE_BYTES_MAX", 1_000)


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with running_broker() as running:
        running.create_topic(WIDE, 3)
        yield running


def left() -> Counter[str]:
    """Types of what only the collector would free, those of brokers and requests."""
    kinds = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in garbage())
    return Counter({kind: n for kind, n in kinds.items() if kind.startswith(SELF_MADE)})


@pytest.mark.parametrize(("key", "path"), PATHS, ids=[f"{APIS[k].name} {p}" for k, p in PATHS])
def test_no_item_is_left_to_the_collector(shared: Running, key: int, path: str) -> None:
    remains: Counter[str] = Counter()
    for _ in range(ATTEMPTS):
        gc.collect()
        with shared.connect() as client:
            send(client, key, path)
        shared.wait_until(lambda: not shared.broker.clients.connections)
        remains = shared.do(left)
        if not remains:
            return
    raise AssertionError(f"left to the collector each time: {remains.most_common(5)}")


def send(client: Connection, key: int, path: str) -> None:
    request = of_size(key, path, ITEMS)
    client.send_raw(request.frame())
    client.read_frame()
