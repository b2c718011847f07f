"""Checkpoints of one open chain: encoded beside its segments, put once these are committed.

The chain's row names the newest. That row is noted with retries of its own, so that a registry that
is away stops neither checkpoints nor the release of index rows that they sum up.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import count

from logstore.epoch.appender import Appender, Waiter
from logstore.epoch.late_tasks import start_unless_ended
from logstore.errors import ConditionFailed, Unavailable
from logstore.formats.chain_row import CHAIN, ChainStatus, chain_sk
from logstore.formats.chain_state import ChainState, EpochKey
from logstore.formats.checkpoint import encode_in_slices, forget_expired
from logstore.formats.keys import checkpoint_key
from logstore.ports.registry import Comparison
from logstore.protocol.chain.put import create_parts_settled
from logstore.protocol.steps import BackOff, Steps, UpdateRow, sliced
from logstore.runners.step_runner import StepRunner

PUT_ATTEMPTS_MAX = 1000


class CheckpointWriter:
    def __init__(
        self,
        chain: ChainState,
        appenders: Mapping[EpochKey, Appender],
        fenced: asyncio.Event,
        *,
        runner: StepRunner,
        tasks: asyncio.TaskGroup,
        when_committed: Callable[[int, Waiter], None],
        on_end: Callable[[], None],
    ) -> None:
        """`chain`, `appenders` and `fenced` are the writer's, as they are at each moment.

        `when_committed`: calls back once a segment is committed or never will be. `on_end`: called
        when a checkpoint, or the note of one, has ended.
        """
        self.durable: Sequence[int] = chain.checkpoints[:]
        """Seqs of the checkpoints that are stored, oldest first."""
        self._chain = chain
        self._appenders = appenders
        self._fenced = fenced
        self._runner = runner
        self._tasks = tasks
        self._when_committed = when_committed
        self._on_end = on_end
        self._is_putting = False
        self._is_noting = False

    @property
    def is_idle(self) -> bool:
        """Whether no checkpoint is under way and the chain's row names the newest."""
        return not self._is_putting and not self._is_noting

    def begin(self) -> None:
        """Encode a checkpoint of the chain below `next_seq`; put it once all of that is committed.

        To be called while no segment is open: the state is frozen here and now, when nothing above
        `next_seq` is in it, and encoded in slices. Does nothing while a checkpoint is under way.
        """
        if self._is_putting:
            return
        frozen = self._chain.frozen_window()
        self._is_putting = True
        for key, epoch_range in frozen.epoch_ranges.items():
            if epoch_range.rows:
                appender = self._appenders.get(key)
                if appender is not None:
                    appender.checkpoint(frozen.next_seq, epoch_range.rows)
        start_unless_ended(self._tasks, self._put(frozen))

    async def _put(self, frozen: ChainState) -> None:
        seq = frozen.next_seq
        encoded = await self._runner.run(sliced(encode_in_slices(frozen)))
        forget_expired(self._chain, encoded)
        committed = asyncio.Event()
        self._when_committed(seq - 1, lambda _error: committed.set())
        await committed.wait()
        if not self._fenced.is_set():
            key = checkpoint_key(self._chain.epoch, seq)
            await self._runner.run(
                create_parts_settled(key, encoded.parts, attempts_max=PUT_ATTEMPTS_MAX)
            )
            self.durable = self._chain.checkpoints[:]
            for appender in self._appenders.values():
                appender.checkpoint_stored(seq)
            if not self._is_noting:
                self._is_noting = True
                self._tasks.create_task(self._note())
        self._is_putting = False
        self._on_end()

    async def _note(self) -> None:
        """Write the newest checkpoint to the chain's row, with retries.

        While the registry is away, checkpoints are made and their index is dropped here all the
        same: this broker needs no row to find them; others read on from an older one.
        """
        noted = 0
        while not self._fenced.is_set() and noted < self.durable[-1]:
            noted = await self._runner.run(
                _note_newest(self._chain.epoch, lambda: self.durable[-1])
            )
        self._is_noting = False
        self._on_end()


def _note_newest(epoch: int, newest: Callable[[], int]) -> Steps[int]:
    """Raise `checkpoint` in the chain's row to the newest as it is when the registry answers."""
    for attempt in count(1):
        seq = newest()
        conditions = [
            Comparison("checkpoint", "<", seq),
            Comparison("status", "=", ChainStatus.OPEN.value),
        ]
        try:
            yield UpdateRow(CHAIN, chain_sk(epoch), {"checkpoint": seq}, conditions)
        except Unavailable:
            yield BackOff(attempt)  # the registry is away; producing goes on without it
        except ConditionFailed:
            return seq  # fenced: the broker that seals the chain writes the last checkpoint
        else:
            return seq
    raise AssertionError("unreachable")
