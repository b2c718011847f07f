"""Segment bodies in memory: the tail as it was written, and what was fetched from the store.

That is a whole body, or a part of one (`reading.brokers.segment_parts`). First in, first out:
consumers at the tail read each body soon after it came, those further back read forward and do not
come again. Bodies of own segments are views of shared arenas, which are freed as their segments
leave, in the order they came. Pinned bodies stay beside the others, which they do not displace:
what a reader has ahead (`reading.brokers.segments_ahead`), within a bound of its own.
"""

import asyncio
from collections import OrderedDict

from logstore.errors import Corrupt, LogstoreError
from logstore.formats.keys import segment_key
from logstore.formats.segment import body_of, decode_header
from logstore.protocol.steps import GetRange, Steps, get
from logstore.reading.brokers.segment_parts import SegmentPart
from logstore.runners.step_runner import StepRunner

BODY_OVERHEAD_BYTES = 400
"""Of the place, the view and the entry of one body: more than a segment with one small record."""


class SegmentCache:
    def __init__(self, runner: StepRunner, *, bytes_max: int) -> None:
        self._runner = runner
        self._bytes_max = bytes_max
        self._bytes = 0
        self._bodies: OrderedDict[SegmentPart, memoryview] = OrderedDict()
        self._pinned: set[SegmentPart] = set()
        self._pinned_bodies: dict[SegmentPart, memoryview] = {}
        self._loading: dict[SegmentPart, asyncio.Future[memoryview]] = {}
        self.hit_count = 0
        self.miss_count = 0

    @property
    def byte_count(self) -> int:
        """Of all bodies that are kept, but those that are pinned, each with its overhead."""
        return self._bytes

    def keep(self, epoch: int, seq: int, body: memoryview) -> None:
        """Remember a whole body; the oldest go when there are too many bytes."""
        self._keep(SegmentPart(epoch, seq), body)

    def _keep(self, part: SegmentPart, body: memoryview) -> None:
        if part in self._pinned:
            self._pinned_bodies[part] = body
            return
        known = self._bodies.get(part)
        self._bytes += len(body) + BODY_OVERHEAD_BYTES
        self._bytes -= 0 if known is None else len(known) + BODY_OVERHEAD_BYTES
        self._bodies[part] = body
        while self._bytes > self._bytes_max and len(self._bodies) > 1:
            _, dropped = self._bodies.popitem(last=False)
            self._bytes -= len(dropped) + BODY_OVERHEAD_BYTES

    def pin(self, part: SegmentPart) -> None:
        """Its bytes stay until it is unpinned, from now on or once they are fetched."""
        self._pinned.add(part)
        body = self._bodies.pop(part, None)
        if body is not None:
            self._bytes -= len(body) + BODY_OVERHEAD_BYTES
            self._pinned_bodies[part] = body

    def unpin(self, part: SegmentPart) -> None:
        """From now on it is kept like others, and the newest."""
        self._pinned.discard(part)
        body = self._pinned_bodies.pop(part, None)
        if body is not None:
            self._keep(part, body)

    def peek(self, epoch: int, seq: int) -> memoryview | None:
        """A whole body."""
        return self.peek_part(SegmentPart(epoch, seq))

    def peek_part(self, part: SegmentPart) -> memoryview | None:
        """Also as a part of a whole body that is here."""
        body = self._in_memory(part)
        if body is not None or part.is_whole:
            return body
        body = self._in_memory(part.whole)
        return None if body is None else body[part.start : part.end]

    def _in_memory(self, part: SegmentPart) -> memoryview | None:
        body = self._bodies.get(part)
        return self._pinned_bodies.get(part) if body is None else body

    async def part(self, part: SegmentPart) -> memoryview:
        """Bytes of a body, fetched once however many ask. Raises as the store does.

        A whole body was compared with its checksum. Of a part nothing was looked at: its reader
        checks each batch (`reading.planning.read_plan`).
        """
        while True:
            body = self.peek_part(part)
            if body is not None:
                self.hit_count += 1
                return body
            loading = self._loading.get(part)
            if loading is None:
                return await self._load(part)
            try:
                return await asyncio.shield(loading)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling() or not loading.cancelled():
                    raise
                # Only the loading caller was cancelled; now we load.

    async def _load(self, part: SegmentPart) -> memoryview:
        self.miss_count += 1
        future: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._loading[part] = future
        try:
            body = await self._fetch(part)
        except (LogstoreError, asyncio.CancelledError) as error:
            if isinstance(error, LogstoreError):
                future.set_exception(error)
                future.exception()  # there may be no other waiter
            else:
                future.cancel()
            raise
        finally:
            del self._loading[part]
        self._keep(part, body)
        future.set_result(body)
        return body

    async def _fetch(self, part: SegmentPart) -> memoryview:
        key = segment_key(part.epoch, part.seq)
        if part.is_whole:
            return _body_of(await self._runner.run(get(key)), part, key)
        size = part.end - part.start
        data = await self._runner.run(_range(key, part.body_at + part.start, size))
        if len(data) != size:
            need = part.body_at + part.end
            raise Corrupt(
                f"segment cut short: key={key} need={need} bytes={need - size + len(data)}"
            )
        return memoryview(data)


def _range(key: str, start: int, length: int) -> Steps[bytes]:
    data: bytes = yield GetRange(key, start, length)
    return data


def _body_of(data: bytes | memoryview, part: SegmentPart, key: str) -> memoryview:
    try:
        header = decode_header(data)
    except Corrupt as error:
        raise Corrupt(f"{error} key={key}") from error
    if (header.epoch, header.seq) != (part.epoch, part.seq):
        raise Corrupt(f"segment does not match its key: key={key}")
    return body_of(data, header)
