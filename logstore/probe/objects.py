"""Probes an object store: racing creates, and the small promises that everything else rests on.

Works below `<url>/probe/<random>/` and removes what it put there. Every missing permission is
named, by the name it has in an S3 policy.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

from logstore.errors import (
    AlreadyExists,
    Denied,
    LogstoreError,
    NotFound,
    OutcomeUnknown,
    Retryable,
)
from logstore.ports.objects import BlockingObjectStore
from logstore.probe.races import Race, RaceOutcome, Tally, judge
from logstore.probe.track import ATTEMPTS_MAX, RACERS, NotAllowed, Track, allowed, faults_of

PROBE = "probe/"
SMALL_ROUNDS, LARGE_ROUNDS = 16, 4
SMALL_BYTES, LARGE_BYTES = 16 * 1024, 256 * 1024
"""Stores that check and write in two steps let more racers win the longer the writing takes."""

CREATE, GET, DELETE, LIST = "s3:PutObject", "s3:GetObject", "s3:DeleteObject", "s3:ListBucket"


class ObjectsProbe:
    """One probe of `store`; `name` is a string never given before."""

    def __init__(self, store: BlockingObjectStore, track: Track, name: str) -> None:
        self._store = store
        self._track = track
        self._prefix = f"{PROBE}{name}/"
        self._keys: list[str] = []

    def run(self) -> tuple[Tally, list[str]]:
        """The races, and everything that is wrong, theirs included."""
        races: list[Race] = []
        try:
            faults = faults_of(self._check_one_object, self._check_ranges, self._check_list)
            if not faults:
                races = list(self._races())
        except BaseException:
            with suppress(LogstoreError):
                faults_of(self._remove_all)
            raise
        tally = judge("racing creates", races)
        return tally, [*faults, *tally.faults, *faults_of(self._remove_all)]

    def _check_one_object(self) -> str | None:
        key, first, second = self._key("one"), b"first" * 100, b"second" * 100
        if self._read_absent(key) is not None:
            return f"a key that was never created exists: key={key}"
        self._create(key, first)
        if self._read(key) != first:
            return (
                "an object just created was not found: the store caches absence, or its "
                "reads are stale"
            )
        try:
            allowed(CREATE, lambda: self._track.retry(lambda: self._put(key, second)))
            refused = False
        except AlreadyExists:
            refused = True
        if not refused or self._read(key) != first:
            return "a create replaced an object: the store ignores If-None-Match"
        return None

    def _check_ranges(self) -> str | None:
        key, data = self._key("ranges"), bytes(range(256)) * 4
        self._create(key, data)
        for start, length in ((0, 10), (300, 7), (1000, 100)):
            answer = allowed(GET, partial(self._range, key, start, length))
            if answer != data[start : start + length]:
                return f"a ranged read answers other bytes: start={start} length={length}"
        return None

    def _check_list(self) -> str | None:
        keys = sorted(self._key(f"list-{name}") for name in ("b", "a", "c"))
        for key in keys:
            self._create(key, b"x")
        prefix = f"{self._prefix}list-"
        answer = allowed(LIST, lambda: self._track.retry(lambda: list(self._store.list(prefix))))
        if [info.key for info in answer] != keys:
            return "a listing is not complete, or not in order"
        return None

    def _races(self) -> Iterator[Race]:
        for number in range(SMALL_ROUNDS + LARGE_ROUNDS):
            size_bytes = SMALL_BYTES if number < SMALL_ROUNDS else LARGE_BYTES
            bodies = [bytes([racer]) * size_bytes for racer in range(RACERS)]
            key = self._key(f"race-{number:02}")
            outcomes = self._track.race(partial(self._attempt, key, bodies))
            answer = self._read_absent(key)
            yield Race(tuple(outcomes), bodies.index(answer) if answer in bodies else None)

    def _attempt(self, key: str, bodies: Sequence[bytes], racer: int) -> RaceOutcome:
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                self._put(key, bodies[racer])
                return RaceOutcome.WON
            except AlreadyExists:
                # A throttled attempt may have been stored all the same.
                return RaceOutcome.LOST if attempt == 1 else RaceOutcome.UNKNOWN
            except Retryable:
                self._track.back_off(attempt)
            except OutcomeUnknown:
                return RaceOutcome.UNKNOWN
        return RaceOutcome.UNKNOWN

    def _remove_all(self) -> str | None:
        permission = f"{DELETE}, so what lies below {self._prefix} stays"
        for key in self._keys:
            allowed(permission, partial(self._track.retry, partial(self._store.delete, key)))
            if self._read_absent(key) is not None:
                return f"a deleted object is still there: key={key}"
        return None

    def _create(self, key: str, data: bytes) -> None:
        with suppress(AlreadyExists):  # an answer was lost; what is there is read anyway
            allowed(CREATE, lambda: self._track.retry(lambda: self._put(key, data)))

    def _read(self, key: str) -> bytes | None:
        try:
            return allowed(GET, lambda: self._track.retry(lambda: self._store.get(key)))
        except NotFound:
            return None

    def _read_absent(self, key: str) -> bytes | None:
        """Of a key that may have no object: S3 says so only to those who may list the bucket."""
        try:
            return self._track.retry(lambda: self._store.get(key))
        except NotFound:
            return None
        except Denied as error:
            raise NotAllowed(
                f"not allowed: {LIST} on the bucket, without which an absent key answers 403 "
                f"instead of 404; or {GET}: {error}"
            ) from error

    def _put(self, key: str, data: bytes) -> None:
        self._store.create(key, [data])

    def _range(self, key: str, start: int, length: int) -> bytes:
        return self._track.retry(lambda: self._store.get_range(key, start, length))

    def _key(self, name: str) -> str:
        key = self._prefix + name
        self._keys.append(key)
        return key
