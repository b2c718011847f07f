"""Stored data that cannot be served: reported on stderr, but not for each request.

Clients ask again several times a second; one line a minute for each error is enough.
"""

import logging
from typing import Protocol

from logstore.errors import Corrupt, LogstoreError, NotFound, Refused
from logstore.ports.clock import Clock
from logstore.troubles import LastingTroubles

AGAIN_S = 60.0
TROUBLES_MAX = 1000

logger = logging.getLogger(__name__)


class NamedPartition(Protocol):
    """Topic id and partition for the log line: of a leader or of a follower."""

    @property
    def topic_id(self) -> bytes: ...

    @property
    def partition(self) -> int: ...


class Alarms:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._troubles = LastingTroubles(again_s=AGAIN_S, count_max=TROUBLES_MAX)

    def cannot_serve(self, partition: NamedPartition, offset: int, error: LogstoreError) -> None:
        """Report an error that repeating cannot mend: damaged, lost, or not allowed to be read."""
        if not isinstance(error, Corrupt | NotFound | Refused):
            return
        trouble = str(error)
        if self._troubles.occurred(trouble, self._clock.monotonic_s()) is None:
            return
        logger.error(
            "stored records cannot be served: topic=%s partition=%d offset=%d %s; "
            "run logstore fsck",
            partition.topic_id.hex(),
            partition.partition,
            offset,
            trouble,
        )
