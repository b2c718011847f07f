"""fsck of one chain on a store that has a bad day: what it refuses to tell is no damage."""

from collections import Counter

import pytest

from logstore.cli.fsck.chain import FsckCounts, check_chain
from logstore.errors import Throttled
from logstore.formats.chain_row import ChainRow, ChainStatus
from logstore.formats.checkpoint import encode_checkpoint
from logstore.formats.keys import chain_prefix, checkpoint_key, seq_of
from logstore.objects.memory import MemoryObjects
from logstore.ports.clock import SystemClock
from logstore.runners.step_runner import BlockingStepRunner
from tests.golden.samples import BROKER, CLUSTER_ID, EPOCH
from tests.logstore.protocol.built import BuiltChain


class Throttling(MemoryObjects):
    """Throttles every other read of each key."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self._reads: Counter[str] = Counter()

    def get(self, key: str) -> bytes:
        self._throttle(key)
        return super().get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self._throttle(key)
        return super().get(key)[start : start + length]

    def _throttle(self, key: str) -> None:
        self._reads[key] += 1
        if self._reads[key] % 2:
            raise Throttled(f"slow down key={key}")


@pytest.mark.parametrize("bodies", [False, True])
def test_a_throttled_read_is_no_damage(bodies: bool) -> None:
    chain = BuiltChain()
    chain.add_opening()
    chain.add_take()
    chain.add_batches(3)
    end = chain.seq
    checkpoint = encode_checkpoint(chain.replay())
    chain.add_seal()
    store = Throttling()
    for info in chain.objects.list(""):
        store.create(info.key, [chain.objects.get(info.key)])
    store.create(checkpoint_key(EPOCH, end), [checkpoint])
    runner = BlockingStepRunner(store, None, chain.rng, sleep_s=lambda _: None)
    row = ChainRow(broker=BROKER, status=ChainStatus.SEALED, checkpoint=end, seal=end)

    keys = list(store.list(""))
    objects = [
        (seq_of(info.key), info) for info in keys if info.key.startswith(chain_prefix(EPOCH))
    ]
    look = check_chain(
        runner, CLUSTER_ID, EPOCH, row, objects, FsckCounts(), committed_end=end, bodies=bodies
    )

    assert look.problems == []
