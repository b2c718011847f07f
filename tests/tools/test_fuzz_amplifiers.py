"""Few bytes that ask for much work, a little of each: the broker serves on, in the same epoch."""

import random
from collections.abc import Iterator

import pytest

from tests.broker.running import Running, batch_of, produce, running_broker
from tools.fuzz.amplifiers import ACTS, COMPACTED, Attack

pytestmark = pytest.mark.slow

SCALE = 0.02
SEEDS = 3


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with running_broker({"auto.create.topics.enable": "false"}) as running:
        running.create_topic("wide", 100)
        running.create_topic(COMPACTED, 1)
        yield running


@pytest.mark.parametrize("name", ACTS)
def test_the_broker_serves_on(shared: Running, name: str) -> None:
    epoch = shared.log.epoch
    for seed in range(SEEDS):
        ACTS[name](Attack(("127.0.0.1", shared.listener.port), random.Random(seed), SCALE))
        with shared.connect() as client:
            assert produce(client, "wide", batch_of(b"x")).error_code == 0
    assert shared.log.epoch == epoch
    assert not shared.log.fenced.is_set()
    shared.wait_until(lambda: not shared.broker.clients.connections)
