"""The clock that stamps records whose age decides later when they are deleted.

    LogAppendTime          retention
    offsets of groups      `offsets.retention.minutes`

The wall clock, or the time of the chain where that is later (`logstore.protocol.rules.chain_time`):
it goes on from the time of the store. So a host whose clock is behind makes no record look older to
the brokers that judge it. One whose clock is ahead delays its deletion.
"""

from typing import Protocol

from logstore.ports.clock import Clock


class ChainClock(Protocol):
    """The call needed of `logstore.epoch.writer.ChainWriter`."""

    def chain_ms(self) -> int: ...


class StampClock:
    """A `Clock`."""

    def __init__(self, clock: Clock, chain: ChainClock) -> None:
        self._clock = clock
        self._chain = chain
        self.monotonic_s = clock.monotonic_s
        self.sleep_s = clock.sleep_s

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return max(self._clock.now_ms(), self._chain.chain_ms())
