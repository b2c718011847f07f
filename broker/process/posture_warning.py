"""Warns again and again while a listener stands open (`posture.py`)."""

import asyncio
import logging
from collections.abc import Sequence

from broker.network.authorizer import ANONYMOUS
from broker.network.listeners import ListenAddress
from broker.process.posture import WARNING, WHAT_TO_DO

EVERY_S = 60.0

logger = logging.getLogger(__name__)


class PostureWarning:
    def __init__(self, loop: asyncio.AbstractEventLoop, places: Sequence[ListenAddress]) -> None:
        self._loop = loop
        self._places = places
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Warn now, and each minute until `end`."""
        for place in self._places:
            where = f"{place.name}://{place.host}:{place.port}"
            logger.warning(WARNING, ANONYMOUS, where, WHAT_TO_DO)
        if self._places:
            self._timer = self._loop.call_later(EVERY_S, self.begin)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
