"""Which fault befalls which call of a store: chances, drawn in the order of calls.

put     lost            the outcome is "unknown", nothing happened
        answer lost     the outcome is "unknown", it happened
        late            the outcome is "unknown", it happens up to `late_max_s` later
        doubled         it happens twice
        conflict        "already exists" with nothing there: a 409 in disguise
        throttled       nothing happened
get     failed          "unknown", or refused for now
        throttled       as above
        short, flipped  fewer bytes than asked, or one bit wrong
any     slow            up to `slow_max_s` more
"""

import random
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from logstore.errors import AlreadyExists, LogstoreError, OutcomeUnknown, Retryable, Throttled
from logstore.ports.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFaults:
    """Chances, each for one call. The default is a store in good health."""

    put_lost: float = 0.0
    put_answer_lost: float = 0.0
    put_late: float = 0.0
    put_doubled: float = 0.0
    put_conflict: float = 0.0
    throttled: float = 0.0
    get_failed: float = 0.0
    get_short: float = 0.0
    get_flipped: float = 0.0
    slow: float = 0.0
    latency_max_s: float = 0.03
    slow_max_s: float = 5.0
    timeout_s: float = 2.0
    late_max_s: float = 30.0

    def of_puts(self) -> Mapping[str, float]:
        return {
            "put lost": self.put_lost,
            "put answer lost": self.put_answer_lost,
            "put late": self.put_late,
            "put doubled": self.put_doubled,
            "put conflict": self.put_conflict,
            "put throttled": self.throttled,
        }

    def of_gets(self) -> Mapping[str, float]:
        return {
            "get failed": self.get_failed,
            "get throttled": self.throttled,
            "get short": self.get_short,
            "get flipped": self.get_flipped,
        }


def draw_fault(kinds: Mapping[str, float], rng: random.Random) -> str | None:
    """One of `kinds`, each with its chance, or none."""
    point = rng.random()
    for kind, of_it in kinds.items():
        point -= of_it
        if point < 0:
            return kind
    return None


def spoiled(data: bytes, fault: str | None, rng: random.Random) -> bytes:
    """`data` as `fault` lets it be read."""
    if fault == "get short" and data:
        return data[: rng.randrange(len(data))]
    if fault == "get flipped" and data:
        bad = bytearray(data)
        bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        return bytes(bad)
    return data


def put_error(fault: str | None, key: str) -> LogstoreError | None:
    """Error of a create that does not reach the store at once."""
    if fault in ("put lost", "put late"):
        return OutcomeUnknown(f"time-out key={key}")
    if fault == "put conflict":
        return AlreadyExists(f"conflict key={key}")
    if fault == "put throttled":
        return Throttled(f"slow down key={key}")
    return None


@dataclass(frozen=True, slots=True)
class Late:
    """A create that happens later."""

    due_s: float
    key: str
    data: bytes


class Faults:
    """Chance, time and late puts, for any number of wrappers and threads. `seen` counts faults."""

    def __init__(self, faults: StoreFaults, rng: random.Random, clock: Clock) -> None:
        self.faults = faults
        self.seen: Counter[str] = Counter()
        self._rng = rng
        self._clock = clock
        self._lock = threading.Lock()
        self._late: list[Late] = []

    def draw(self, kinds: Mapping[str, float]) -> str | None:
        with self._lock:
            kind = draw_fault(kinds, self._rng)
            if kind is not None:
                self.seen[kind] += 1
            return kind

    def draw_delay_s(self) -> float:
        with self._lock:
            if not self.faults.slow or self._rng.random() >= self.faults.slow:
                return 0.0
            self.seen["slow"] += 1
            return self._rng.uniform(0, self.faults.slow_max_s)

    def get_error(self, fault: str | None, key: str) -> LogstoreError | None:
        """Error of a read with this `fault`."""
        if fault == "get throttled":
            return Throttled(f"slow down key={key}")
        if fault != "get failed":
            return None
        with self._lock:
            if self._rng.random() < 0.5:
                return OutcomeUnknown(f"time-out key={key}")
            return Retryable(f"not now key={key}")

    def spoil(self, data: bytes, fault: str | None) -> bytes:
        with self._lock:
            return spoiled(data, fault, self._rng)

    def postpone(self, key: str, data: bytes) -> None:
        with self._lock:
            late_s = self._rng.uniform(0, self.faults.late_max_s)
            self._late.append(Late(self._clock.monotonic_s() + late_s, key, data))

    def due(self, *, all_of_them: bool = False) -> list[Late]:
        """Late puts whose time has come, each given once."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            due = [late for late in self._late if all_of_them or late.due_s <= now_s]
            self._late = [late for late in self._late if late not in due]
            return due

    def see_late(self, error: LogstoreError | None) -> None:
        with self._lock:
            self.seen["late put landed" if error is None else "late put met an object"] += 1
