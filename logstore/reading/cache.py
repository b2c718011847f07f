"""Segment bodies in memory: the tail as it was written, and segments fetched from the store.

First in, first out: consumers at the tail read each body soon after it came, those further back
read forward and do not come again. Bodies of own segments are views of shared arenas, which are
freed as their segments leave, in the order they came. Pinned bodies stay beside the others, which
they do not displace: what a reader has ahead (`reading.segments_ahead`), within a bound of its own.
"""

import asyncio
from collections import OrderedDict

from logstore.errors import Corrupt, LogstoreError
from logstore.formats.keys import segment_key
from logstore.formats.segment import body_of, decode_header
from logstore.protocol.steps import get
from logstore.runners.step_runner import StepRunner

BODY_OVERHEAD_BYTES = 400
"""Of the place, the view and the entry of one body: more than a segment with one small record."""

Place = tuple[int, int]
"""(epoch, seq)"""


class SegmentCache:
    def __init__(self, runner: StepRunner, *, bytes_max: int) -> None:
        self._runner = runner
        self._bytes_max = bytes_max
        self._bytes = 0
        self._bodies: OrderedDict[Place, memoryview] = OrderedDict()
        self._pinned: set[Place] = set()
        self._pinned_bodies: dict[Place, memoryview] = {}
        self._loading: dict[Place, asyncio.Future[memoryview]] = {}
        self.hit_count = 0
        self.miss_count = 0

    @property
    def byte_count(self) -> int:
        """Of all bodies that are kept, but those that are pinned, each with its overhead."""
        return self._bytes

    def keep(self, epoch: int, seq: int, body: memoryview) -> None:
        """Remember a body; the oldest go when there are too many bytes."""
        if (epoch, seq) in self._pinned:
            self._pinned_bodies[epoch, seq] = body
            return
        known = self._bodies.get((epoch, seq))
        self._bytes += len(body) + BODY_OVERHEAD_BYTES
        self._bytes -= 0 if known is None else len(known) + BODY_OVERHEAD_BYTES
        self._bodies[epoch, seq] = body
        while self._bytes > self._bytes_max and len(self._bodies) > 1:
            _, dropped = self._bodies.popitem(last=False)
            self._bytes -= len(dropped) + BODY_OVERHEAD_BYTES

    def pin(self, place: Place) -> None:
        """Its body stays until it is unpinned, from now on or once it is fetched."""
        self._pinned.add(place)
        body = self._bodies.pop(place, None)
        if body is not None:
            self._bytes -= len(body) + BODY_OVERHEAD_BYTES
            self._pinned_bodies[place] = body

    def unpin(self, place: Place) -> None:
        """From now on it is a body like others, and the newest."""
        self._pinned.discard(place)
        body = self._pinned_bodies.pop(place, None)
        if body is not None:
            self.keep(*place, body)

    def peek(self, epoch: int, seq: int) -> memoryview | None:
        place = (epoch, seq)
        body = self._bodies.get(place)
        return self._pinned_bodies.get(place) if body is None else body

    async def body(self, epoch: int, seq: int) -> memoryview:
        """The body of a segment, fetched once however many ask. Raises as the store does."""
        place = (epoch, seq)
        while True:
            body = self.peek(epoch, seq)
            if body is not None:
                self.hit_count += 1
                return body
            loading = self._loading.get(place)
            if loading is None:
                return await self._load(place)
            try:
                return await asyncio.shield(loading)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling() or not loading.cancelled():
                    raise
                # Only the loading caller was cancelled; now we load.

    async def _load(self, place: Place) -> memoryview:
        self.miss_count += 1
        future: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._loading[place] = future
        try:
            body = _body_of(await self._runner.run(get(segment_key(*place))), place)
        except (LogstoreError, asyncio.CancelledError) as error:
            if isinstance(error, LogstoreError):
                future.set_exception(error)
                future.exception()  # there may be no other waiter
            else:
                future.cancel()
            raise
        finally:
            del self._loading[place]
        self.keep(*place, body)
        future.set_result(body)
        return body


def _body_of(data: bytes | memoryview, place: Place) -> memoryview:
    try:
        header = decode_header(data)
    except Corrupt as error:
        raise Corrupt(f"{error} key={segment_key(*place)}") from error
    if (header.epoch, header.seq) != place:
        raise Corrupt(f"segment does not match its key: key={segment_key(*place)}")
    return body_of(data, header)
