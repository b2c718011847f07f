"""Receive buffers: taken from a pool, cut into frames, given back.

    frame     size int32 | size bytes, the first two of which are the API key

Small frames arrive in a scratch buffer, many at once, and are handed out as views of it. A larger
one gets a buffer of its own, which bytes are received into directly. Room in that buffer grows
fourfold with the bytes that have arrived: a peer that announces 100 MiB and sends ten bytes costs
`FIRST_BYTES`, and one that sent half of them costs no more than the whole. Part of a small frame is
kept in as many bytes, so that a scratch buffer is held only while it is used.

    room up to 8 MiB    a larger buffer is taken, and the bytes are copied: 4 ms at most
    then                a mapping of the whole frame, which takes memory as bytes arrive; its room
                        grows without a copy, which held the event loop for 20 ms

Memory that was never touched costs more than copying, so small buffers are kept and used again. A
mapping is not: the next frame would hold what it has touched, with little room. Nothing here reads
a socket: `Connection` does.
"""

from collections.abc import Callable
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from struct import Struct

from logstore.errors import Invalid

SCRATCH_BYTES = 128 * 1024
SMALL_FRAME_BYTES = SCRATCH_BYTES // 2
FIRST_BYTES = 16 * 1024
GROWTH = 4
MAPPED_BYTES = 1024 * 1024
"""Smaller buffers are of the heap."""
COPIED_BYTES_MAX = 8 * 1024 * 1024
"""A frame with more room is mapped whole."""
KEPT_BYTES_MAX = 64 * 1024 * 1024
SURPLUS_BYTES = 1024 * 1024
"""More than this is not kept for long by a broker that does not use it."""
PRODUCE_KEY = 0
_CLIENT_HELLO = range(0x160300, 0x160304)
"""The first bytes of one, read as a size: a record of a handshake, TLS 1.0 to 1.3."""

_SIZE = Struct(">i")
_SIZE_AND_KEY = Struct(">ih")


class BadFrame(Invalid):
    """A size that no frame may have; the peer is not speaking Kafka, or not to us."""


class BufferPool:
    """Buffers of few sizes, at most a quarter larger than asked for. Keeps free ones."""

    def __init__(self, kept_bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._free: dict[int, list[memoryview]] = {}
        self._kept_bytes_max = kept_bytes_max
        self.kept_bytes = 0
        self._spare_bytes = 0
        """Kept since the last look, and never needed."""
        self.on_surplus: Callable[[], None] = _nothing
        """Called while more is kept than `SURPLUS_BYTES`, with each buffer that comes back."""

    def take(self, size_bytes: int) -> memoryview:
        """At least `size_bytes`; its bytes are left over from another use."""
        unit = 1 << max(size_bytes.bit_length() - 3, 0)
        size = -(-size_bytes // unit) * unit
        free = self._free.get(size)
        if free:
            self.kept_bytes -= size
            if self.kept_bytes < self._spare_bytes:
                self._spare_bytes = self.kept_bytes
            return free.pop()
        return memoryview(_mapped(size) if size >= MAPPED_BYTES else bytearray(size))

    def give_back(self, buffer: memoryview) -> None:
        size = len(buffer)
        if size <= COPIED_BYTES_MAX and self.kept_bytes + size <= self._kept_bytes_max:
            self.kept_bytes += size
            self._free.setdefault(size, []).append(buffer)
            if self.kept_bytes > SURPLUS_BYTES:
                self.on_surplus()

    @property
    def has_surplus(self) -> bool:
        return self.kept_bytes > SURPLUS_BYTES

    def drop_spare(self, bytes_max: int) -> int:
        """Drop free buffers that no connection needed since the last look, some `bytes_max` of
        them. Returns their bytes; with fewer than `bytes_max` the next look begins.
        """
        dropped = 0
        for size, free in self._free.items():
            count = min(len(free), (min(self._spare_bytes, bytes_max) - dropped) // size)
            if count > 0:
                del free[:count]
                dropped += count * size
        self.kept_bytes -= dropped
        self._spare_bytes -= dropped
        if dropped < bytes_max:
            self._spare_bytes = self.kept_bytes
        return dropped


def _nothing() -> None: ...


def _mapped(size_bytes: int) -> mmap:
    """Memory that the system gives page by page, as bytes arrive in it.

    A `bytearray` is filled with zeros at once: 100 MiB of them hold the event loop for 50 ms.
    """
    try:
        return mmap(-1, size_bytes, flags=MAP_PRIVATE | MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"no memory for a request: bytes={size_bytes}") from error


class Inbox:
    """Bytes that one peer has sent and that are not dispatched yet.

    A frame that `next` gave is a view of a pooled buffer: it is good until the next call of any
    method here.
    """

    __slots__ = (
        "_changed",
        "_end",
        "_frame_bytes_max",
        "_large",
        "_large_size",
        "_parked",
        "_pool",
        "_produce_bytes_max",
        "_received",
        "_room",
        "_scratch",
        "_small_bytes_max",
        "_start",
        "_used_up",
        "arrived_bytes",
    )

    def __init__(
        self,
        pool: BufferPool,
        *,
        produce_bytes_max: int,
        frame_bytes_max: int,
        changed: Callable[[int], None],
    ) -> None:
        """`changed` is called with the bytes by which the room of a large frame has grown."""
        self.arrived_bytes = 0
        """Of large frames, ever."""
        self._pool = pool
        self._changed = changed
        self._produce_bytes_max = produce_bytes_max
        self._frame_bytes_max = frame_bytes_max
        self._small_bytes_max = SMALL_FRAME_BYTES
        self._scratch: memoryview | None = None
        self._start = self._end = 0
        self._large: memoryview | None = None
        self._large_size = self._received = self._room = 0
        self._used_up = False
        self._parked = b""

    def limit(self, *, produce_bytes_max: int, frame_bytes_max: int) -> None:
        """Take frames of these sizes from now on."""
        self._produce_bytes_max = produce_bytes_max
        self._frame_bytes_max = frame_bytes_max
        self._small_bytes_max = min(SMALL_FRAME_BYTES, produce_bytes_max)

    @property
    def is_empty(self) -> bool:
        """Whether no part of a frame is waiting."""
        is_small_empty = self._start == self._end and not self._parked
        return is_small_empty and (self._large is None or self._used_up)

    @property
    def unfinished_bytes(self) -> int:
        """The room that a large frame has that has not all arrived, else 0."""
        if self._large is None or self._received >= self._large_size:
            return 0
        return self._room

    @property
    def growth_bytes(self) -> int:
        """How much `grow` takes; 0: `buffer` has room, or the frame is complete."""
        if self._large is None or self._received < self._room:
            return 0
        return max(0, min(GROWTH * self._room, self._large_size) - self._room)

    def grow(self) -> None:
        """Make room for the next bytes of the large frame."""
        old, before = self._large, self._room
        assert old is not None
        room = min(GROWTH * before, self._large_size)
        if room > len(old):
            is_whole = room > COPIED_BYTES_MAX
            large = memoryview(_mapped(self._large_size)) if is_whole else self._pool.take(room)
            large[:before] = old[:before]
            self._large = large
            self._pool.give_back(old)
            room = room if is_whole else len(large)
        self._room = room
        self._changed(room - before)

    def buffer(self) -> memoryview:
        """Where to receive the next bytes; never empty."""
        self._drop_used()
        if self._large is not None:
            if self._received == self._room:
                self.grow()
            return self._large[self._received : min(self._room, self._large_size)]
        scratch = self._scratch
        if scratch is None:
            scratch = self._take_scratch()
        elif self._start and self._end > SMALL_FRAME_BYTES:
            left = self._end - self._start
            scratch[:left] = scratch[self._start : self._end]
            self._start, self._end = 0, left
        return scratch[self._end :]

    def received(self, count: int) -> None:
        """The first `count` bytes of `buffer` came in."""
        if self._large is not None:
            self._received += count
            self.arrived_bytes += count
        else:
            self._end += count

    def next(self) -> memoryview | None:
        """The next whole frame, without its size. Raises `BadFrame`."""
        if self._used_up:
            self._drop_used()
        if self._large is not None:
            if self._received < self._large_size:
                return None
            self._used_up = True
            return self._large[: self._large_size]
        if self._parked:
            self._take_scratch()
        left = self._end - self._start
        if left < _SIZE.size:
            if not left:
                self.rest()
            return None
        assert self._scratch is not None
        (size,) = _SIZE.unpack_from(self._scratch, self._start)
        if not 0 <= size <= self._small_bytes_max:
            return self._begin_large(size, left)
        if left < _SIZE.size + size:
            return None
        at = self._start + _SIZE.size
        self._start = at + size
        return self._scratch[at : self._start]

    def put_back(self, frame: memoryview) -> None:
        """`frame`, which `next` gave last, is to be given again."""
        if self._used_up:
            self._used_up = False
        else:
            self._start -= _SIZE.size + len(frame)

    def rest(self) -> None:
        """Give the scratch buffer back if it holds no more than part of a small frame."""
        left = self._end - self._start
        if self._scratch is not None and left < SMALL_FRAME_BYTES:
            self._parked = bytes(self._scratch[self._start : self._end])
            self._pool.give_back(self._scratch)
            self._scratch = None
            self._start = self._end = 0

    def close(self) -> None:
        self._start = self._end
        self.rest()
        self._parked = b""
        if self._large is not None:
            self._give_large_back(self._large)

    def _take_scratch(self) -> memoryview:
        scratch = self._scratch = self._pool.take(SCRATCH_BYTES)
        self._start, self._end = 0, len(self._parked)
        scratch[: self._end] = self._parked
        self._parked = b""
        return scratch

    def _begin_large(self, size: int, left: int) -> memoryview | None:
        if not 0 <= size <= self._produce_bytes_max:
            if size >> 8 in _CLIENT_HELLO:
                raise BadFrame(
                    "a TLS ClientHello on a listener without TLS: the client needs "
                    "security.protocol=PLAINTEXT or SASL_PLAINTEXT, or another listener"
                )
            raise BadFrame(f"frame size={size} max={self._produce_bytes_max}")
        assert self._scratch is not None
        if left < _SIZE_AND_KEY.size:
            return None
        _, key = _SIZE_AND_KEY.unpack_from(self._scratch, self._start)
        if key != PRODUCE_KEY and size > self._frame_bytes_max:
            raise BadFrame(f"frame size={size} max={self._frame_bytes_max} api_key={key}")
        at = self._start + _SIZE.size
        count = min(size, self._end - at)
        self._large = self._pool.take(min(size, max(FIRST_BYTES, count)))
        self._room = len(self._large)
        self._large_size = size
        self._large[:count] = self._scratch[at : at + count]
        self._received = count
        self.arrived_bytes += count
        self._start = at + count
        self._changed(self._room)
        if count < size:
            self.rest()
        return self.next()

    def _drop_used(self) -> None:
        if self._used_up:
            assert self._large is not None
            self._used_up = False
            self._give_large_back(self._large)

    def _give_large_back(self, large: memoryview) -> None:
        self._large = None
        self._pool.give_back(large)
        self._changed(-self._room)
