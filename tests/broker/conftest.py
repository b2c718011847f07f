"""One broker for tests that do not change how it runs, and a connection to it."""

from collections.abc import Iterator

import pytest

from broker.network.authorizer import AllowAll
from tests.broker.running import Running, running_broker
from tools.full_wire import Connection


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    """Topics get names of their own in each test, so one broker serves a whole file."""
    with running_broker() as running:
        yield running


@pytest.fixture
def running(shared: Running) -> Iterator[Running]:
    yield shared
    shared.authorizer.rule = AllowAll()
    shared.let_store_go()
    shared.clock.ahead_ms = 0


@pytest.fixture
def client(running: Running) -> Iterator[Connection]:
    with running.connect() as connection:
        yield connection
