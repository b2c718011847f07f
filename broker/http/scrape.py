"""Makes one page of metrics at a time, in small steps; further requests get the same page.

Reading counters takes turns with everything else on the event loop. Rendering them costs more, and
is done in a thread.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from broker.http.decisions.catalogue import METRICS
from broker.http.exposition import CONTENT_TYPE_PLAIN_0_0_4, render
from broker.http.reading import Reading
from broker.http.server import Answer, HttpPage
from broker.http.stepped import STEP_S

logger = logging.getLogger(__name__)

Read = Callable[[], Iterator[Sequence[Reading]]]
"""All readings, in chunks between which others may go on."""


class Scrape:
    def __init__(self, loop: asyncio.AbstractEventLoop, read: Read) -> None:
        self._loop = loop
        self._read = read
        self._waiting: list[Answer] = []
        self._chunks: Iterator[Sequence[Reading]] = iter(())
        self._found: list[Reading] = []

    def ask(self, answer: Answer) -> None:
        self._waiting.append(answer)
        if len(self._waiting) == 1:
            self._chunks, self._found = self._read(), []
            self._step()

    def _step(self) -> None:
        end_s = self._loop.time() + STEP_S
        try:
            for chunk in self._chunks:
                self._found += chunk
                if self._loop.time() > end_s:
                    self._loop.call_soon(self._step)
                    return
        except Exception as error:  # noqa: BLE001 - logged, and ends one page
            self._end_badly(error)
            return
        readings, self._found = self._found, []
        rendering = self._loop.run_in_executor(None, partial(render, METRICS, readings))
        rendering.add_done_callback(self._rendered)

    def _rendered(self, done: "asyncio.Future[bytes]") -> None:
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            self._end_badly(error)
        else:
            self._end(HttpPage(200, done.result(), CONTENT_TYPE_PLAIN_0_0_4))

    def _end_badly(self, error: BaseException) -> None:
        logger.error("metrics cannot be made", exc_info=error)
        self._end(HttpPage(500, b"fault in the broker\n"))

    def _end(self, page: HttpPage) -> None:
        waiting, self._waiting = self._waiting, []
        for answer in waiting:
            answer(page)
