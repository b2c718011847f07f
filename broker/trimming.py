"""Once a minute: trim this broker's own chain, and as controller those that are sealed."""

import logging
from collections.abc import Callable
from typing import Protocol

from logstore.config.broker import BrokerSettings
from logstore.errors import Corrupt, LogstoreError, Refused
from logstore.perform import Performer
from logstore.rows import ChainRow
from logstore.trimming import Trimmed, Trimmer, only, sealed

PERIOD_S = 60.0

logger = logging.getLogger(__name__)


class TrimmedLog(Protocol):
    """What of a log is needed here."""

    epoch: int
    cluster_id: bytes

    @property
    def performer(self) -> Performer: ...


class Trimming:
    """Runs until its task is cancelled; every pass may be the last, and none is needed."""

    def __init__(
        self, log: TrimmedLog, settings: BrokerSettings, is_controller: Callable[[], bool]
    ) -> None:
        self._log = log
        self._is_controller = is_controller
        grace_ms = settings.number("logstore.delete.grace.ms")
        self._trimmer = Trimmer(log.cluster_id, grace_ms=grace_ms)
        self.published_count = 0
        self.deleted_count = 0
        self.failed_count = 0
        self._told = ""
        """The last trouble that was logged."""

    async def run(self) -> None:
        performer = self._log.performer
        while True:
            # Brokers that were started together need not all ask at once.
            await performer.clock.sleep_s(PERIOD_S * (0.75 + performer.chance.random() / 2))
            await self.trim_once()

    async def trim_once(self) -> None:
        mine, is_controller = only(self._log.epoch), self._is_controller()

        def wanted(epoch: int, row: ChainRow) -> bool:
            return mine(epoch, row) or (is_controller and sealed(epoch, row))

        try:
            done = await self._trimmer.trim_once(self._log.performer, wanted)
        except LogstoreError as error:
            self.failed_count += 1
            self._tell(error)
        else:
            self._told = ""
            self.published_count += len(done.published)
            self.deleted_count += sum(done.deleted.values())
            _report(done)

    def _tell(self, error: LogstoreError) -> None:
        """Once for each trouble; what passes by itself is worth a word, what does not an alarm."""
        if str(error) == self._told:
            return
        self._told = str(error)
        is_alarm = isinstance(error, Corrupt | Refused)
        logger.log(logging.ERROR if is_alarm else logging.WARNING, "cannot trim: %s", error)


def _report(done: Trimmed) -> None:
    for epoch, seq in done.published.items():
        logger.info("trim point raised: chain=%d seq=%d", epoch, seq)
    for epoch, count in done.deleted.items():
        logger.info("deleted below a trim point: chain=%d objects=%d", epoch, count)
