"""What simulated brokers tell their operators: an error in the log lines is an alarm.

In a world whose stores do not lie no broker has a reason for one, and a fault of a handler's own is
one in any world.
"""

import logging
from collections.abc import Callable


class HeardAlarms(logging.Handler):
    """Hands each line of a level from ERROR on to `tell` while it is entered."""

    def __init__(self, tell: Callable[[logging.LogRecord], None]) -> None:
        super().__init__(logging.ERROR)
        self._tell = tell
        self._logger = logging.getLogger("broker")

    def emit(self, record: logging.LogRecord) -> None:
        self._tell(record)

    def __enter__(self) -> "HeardAlarms":
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
