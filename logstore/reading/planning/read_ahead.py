"""How far to read ahead of readers that go through objects in order. Pure: time is passed in.

A reader should have as many bytes on their way as it takes while the store answers a request:

    wanted = 2 x pace of the reader (bytes/s) x time of a GET (s, and some for slow ones)

The pace is that between waits, of the last second or so. Twice, because a reader may wait for
another, whose wait it does not know of: then it takes only what it was given, and the bytes ahead
double until both wait no longer. The store's bandwidth shows in the time of a GET.

All readers share `bytes_max`: each may use an equal part of it, and what others do not want.
Counted are objects on their way, and those that arrived and were not read; an object that several
readers want counts once. The object that it reads and the next are granted to every reader while
there is room, the first of them even if its part is smaller.

    ahead = ReadAhead(bytes_max)
    ahead.take(reader, byte_count, now_s)       it read on; the first time: it is there
    while ahead.may_add(reader, place, size):   the next object, in order
        if ahead.add(reader, place, size):      it is not on its way yet: GET it, then
            ...                                 ahead.landed(place, size, took_s), or .failed(…)
    ahead.remove(reader, place)                 it read all that it wants of an object
    ahead.forget(reader)                        it went elsewhere, or away
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from math import exp

MARGIN = 2.0
PACE_S = 1.0
"""Over how long a reader's pace is measured, its waits left out."""
OBJECTS_MIN = 2
REQUESTS_MAX = 64
"""On their way at once: small objects are bounded by this before they are by bytes."""
TIMES_KEPT = 0.9
"""Share of the past in the time of a request, at each: about the last ten count."""
PAUSE_S = 1.0
"""After a request that failed nothing is begun for so long: readers' own requests find out how the
store is."""
_TAKE_S_MIN = 1e-4


@dataclass(slots=True)
class _ReaderPace:
    """Of one reader, and which objects it has ahead."""

    last_s: float
    taken_bytes: float = 0.0
    taken_s: float = 0.0
    ahead_bytes: int = 0
    places: dict[Hashable, None] = field(default_factory=dict)

    def take(self, byte_count: int, now_s: float, waited_s: float) -> None:
        elapsed_s = max(now_s - self.last_s - waited_s, _TAKE_S_MIN)
        kept = exp(-elapsed_s / PACE_S)
        self.taken_bytes = self.taken_bytes * kept + byte_count
        self.taken_s = self.taken_s * kept + elapsed_s
        self.last_s = now_s

    @property
    def bytes_per_s(self) -> float:
        return self.taken_bytes / self.taken_s if self.taken_s else 0.0


@dataclass(slots=True)
class _ObjectAhead:
    """An object on its way, or not read by all of its readers."""

    byte_count: int
    is_on_its_way: bool = True
    readers: dict[Hashable, None] = field(default_factory=dict)


class _GetTimes:
    """Mean and mean deviation of recent requests, as TCP measures round trips (RFC 6298)."""

    def __init__(self) -> None:
        self._mean_s = -1.0
        self._deviation_s = 0.0

    def observe(self, took_s: float) -> None:
        if self._mean_s < 0:
            self._mean_s = took_s
            return
        kept = TIMES_KEPT
        self._deviation_s = kept * self._deviation_s + (1 - kept) * abs(took_s - self._mean_s)
        self._mean_s = kept * self._mean_s + (1 - kept) * took_s

    @property
    def slow_s(self) -> float:
        return max(0.0, self._mean_s) + 2 * self._deviation_s


class ReadAhead:
    """The bytes that readers of one process have fetched ahead, and their bound. Readers and
    places are names."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._readers: dict[Hashable, _ReaderPace] = {}
        self._objects: dict[Hashable, _ObjectAhead] = {}
        self._times = _GetTimes()
        self._request_count = 0
        self._pause_until_s = float("-inf")

    @property
    def byte_count(self) -> int:
        """On their way, or arrived and not read; never above `bytes_max` as sizes were given."""
        return self._bytes

    def take(self, reader: Hashable, byte_count: int, now_s: float, waited_s: float = 0.0) -> None:
        """A reader has read so many bytes of objects, and waited so long for them, since the last
        time; the first time it is only made known.
        """
        pace = self._readers.get(reader)
        if pace is None:
            pace = self._readers[reader] = _ReaderPace(now_s)
        else:
            pace.take(byte_count, now_s, waited_s)

    def holds(self, place: Hashable) -> bool:
        """Whether it is on its way, or here for a reader that has not read it."""
        return place in self._objects

    def wanted_bytes(self, reader: Hashable) -> int:
        """How many bytes the reader should have ahead, whatever there is room for."""
        pace = self._readers.get(reader)
        return 0 if pace is None else int(MARGIN * pace.bytes_per_s * self._times.slow_s)

    def may_add(self, reader: Hashable, place: Hashable, byte_count: int, now_s: float) -> bool:
        """Whether the reader should have this object, the next in its order, ahead too."""
        pace = self._readers.get(reader)
        if pace is None or not self._bytes_max:
            return False
        if place in pace.places:
            return True
        after_bytes = pace.ahead_bytes + byte_count
        if len(pace.places) >= OBJECTS_MIN and after_bytes > self.wanted_bytes(reader):
            return False
        if place in self._objects:
            return True
        if now_s < self._pause_until_s or self._request_count >= REQUESTS_MAX:
            return False
        if self._bytes + byte_count > self._bytes_max:
            return False
        share_bytes = self._bytes_max // len(self._readers)
        if not pace.places or after_bytes <= share_bytes:
            return True
        reserved = self._reserved_bytes(reader, share_bytes)
        return self._bytes + byte_count + reserved <= self._bytes_max

    def _reserved_bytes(self, reader: Hashable, share_bytes: int) -> int:
        """Bytes of other readers' shares that they want and do not have yet."""
        return sum(
            max(0, min(share_bytes, self.wanted_bytes(other)) - pace.ahead_bytes)
            for other, pace in self._readers.items()
            if other != reader
        )

    def add(self, reader: Hashable, place: Hashable, byte_count: int) -> bool:
        """The reader has it ahead from now on; whether it has to be fetched for that."""
        pace = self._readers[reader]
        if place in pace.places:
            return False
        held = self._objects.get(place)
        is_new = held is None
        if held is None:
            held = self._objects[place] = _ObjectAhead(byte_count)
            self._bytes += byte_count
            self._request_count += 1
        held.readers[reader] = None
        pace.places[place] = None
        pace.ahead_bytes += held.byte_count
        return is_new

    def landed(self, place: Hashable, byte_count: int, took_s: float | None = None) -> bool:
        """It is here after a request of `took_s`; whether a reader wants it still."""
        if took_s is not None:
            self._times.observe(took_s)
        held = self._objects.get(place)
        if held is None:
            return False
        more = byte_count - held.byte_count
        held.byte_count = byte_count
        self._end_request(held)
        self._bytes += more
        for reader in held.readers:
            self._readers[reader].ahead_bytes += more
        self._drop_unwanted(place, held)
        return bool(held.readers)

    def failed(self, place: Hashable, now_s: float) -> None:
        """Its request failed: no reader has it ahead, and none is begun for `PAUSE_S`."""
        self._pause_until_s = now_s + PAUSE_S
        self.gone(place)

    def gone(self, place: Hashable) -> None:
        """It does not exist, or no longer: no reader has it ahead."""
        held = self._objects.get(place)
        if held is not None:
            self._end_request(held)
            for reader in list(held.readers):
                self.remove(reader, place)
            self._drop_unwanted(place, held)

    def remove(self, reader: Hashable, place: Hashable) -> None:
        """The reader read all it wants of it, or gave it up."""
        pace, held = self._readers.get(reader), self._objects.get(place)
        if pace is None or held is None or place not in pace.places:
            return
        del pace.places[place], held.readers[reader]
        pace.ahead_bytes -= held.byte_count
        self._drop_unwanted(place, held)

    def forget(self, reader: Hashable) -> None:
        """The reader is gone. What is on its way for it counts until it lands."""
        pace = self._readers.get(reader)
        if pace is not None:
            for place in list(pace.places):
                self.remove(reader, place)
            del self._readers[reader]

    def _end_request(self, held: _ObjectAhead) -> None:
        if held.is_on_its_way:
            held.is_on_its_way = False
            self._request_count -= 1

    def _drop_unwanted(self, place: Hashable, held: _ObjectAhead) -> None:
        if not held.readers and not held.is_on_its_way and place in self._objects:
            del self._objects[place]
            self._bytes -= held.byte_count
