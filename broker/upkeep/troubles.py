"""Troubles of a task that runs again and again: each is logged once, as long as it lasts."""

import logging
from collections.abc import Mapping


class ReportedTroubles:
    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._reported: set[str] = set()

    def report(self, troubles: Mapping[str, int]) -> None:
        """Log what is new among `troubles`, all there are now, each with its level."""
        for trouble, level in troubles.items():
            if trouble not in self._reported:
                self._logger.log(level, "%s", trouble)
        self._reported = set(troubles)
