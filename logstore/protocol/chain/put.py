"""Put a segment once: safety rule 2.

The bytes are frozen before the first attempt and are sent again, the same under the same key, until
the store says what became of them:

    created                     → stored
    already exists, mine        → stored: an earlier attempt of ours had won, its answer was lost
    already exists, not mine    → taken: a seal, or a foreign writer; we are fenced
    already exists, but absent  → it was a store's 409, nothing is there; once more
    anything else               → outcome unknown; back off, once more

A store may refuse a large body before it has read it, and close the connection: each attempt then
looks like an unknown outcome. So from the second one on the key is read as well, and an object
found there settles it. A 404 never settles an unknown outcome: the request may still be in flight.
Hence the put is repeated at the same seq for as long as it takes; its bytes never move to the next.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from logstore.errors import (
    AlreadyExists,
    Corrupt,
    Denied,
    NoRoom,
    NotFound,
    OutcomeUnknown,
    Refused,
    Retryable,
    Unavailable,
)
from logstore.formats.keys import segment_key
from logstore.formats.segment import HEADER_BYTES, IDENTITY_BYTES, Header, decode_header
from logstore.formats.segment_builder import FrozenSegment
from logstore.ports.objects import Buffer
from logstore.protocol.steps import BackOff, Create, GetRange, Steps

UNKNOWN_BEFORE_LOOKING = 2
READS_MAX = 2


@dataclass(frozen=True, slots=True)
class Stored:
    """The segment is durable under its key."""


@dataclass(frozen=True, slots=True)
class KeyTaken:
    """Another writer's object has the key; its header, or None if it has no readable header."""

    header: Header | None


def put_once(
    epoch: int, segment: FrozenSegment, on_no_room: Callable[[], None] = lambda: None
) -> Steps[Stored | KeyTaken]:
    """`on_no_room` is called at each attempt that found the disk full: the put goes on."""
    key = segment_key(epoch, segment.seq)
    attempt, unknown = 0, 0
    while True:
        try:
            yield Create(key, segment.parts)
            return Stored()
        except AlreadyExists:
            must_check = True
        except OutcomeUnknown:
            unknown += 1
            must_check = unknown >= UNKNOWN_BEFORE_LOOKING
        except (Retryable, Denied) as error:
            must_check = False
            if isinstance(error, NoRoom):
                on_no_room()
        if must_check:
            other = yield from _read_identity(key, segment.front[:IDENTITY_BYTES])
            if other is not None:
                return other
        attempt += 1
        yield BackOff(attempt)


def _read_identity(key: str, identity: bytes) -> Steps[Stored | KeyTaken | None]:
    """Whose object has `key`; None when nothing is there, or it cannot be read just now."""
    for _ in range(READS_MAX):
        try:
            front: bytes = yield GetRange(key, 0, HEADER_BYTES)
        except (NotFound, Unavailable):
            return None
        if front[:IDENTITY_BYTES] == identity:
            return Stored()
        with suppress(Corrupt, Refused):  # a damaged answer, perhaps: being fenced is for good
            return KeyTaken(decode_header(front))
    return KeyTaken(None)


def create_settled(key: str, data: Buffer, *, attempts_max: int) -> Steps[None]:
    """`create_parts_settled` of one part."""
    return create_parts_settled(key, [data], attempts_max=attempts_max)


def create_parts_settled(key: str, parts: Sequence[Buffer], *, attempts_max: int) -> Steps[None]:
    """Create an object whose content its key determines; one that is there already is as good.

    "Already exists" is believed only once the object can be read: a store's 409 looks the same.
    """
    yield from _create_or_read(key, parts, 1, attempts_max, (Unavailable,))


def create_equal(key: str, data: bytes, *, attempts_max: int) -> Steps[bool]:
    """Create an object, or find one of the same bytes. False: another has its key.

    Raises the last attempt's error, `Denied` and `NoRoom` at once; an earlier attempt may have
    stored it.
    """
    passing = (Retryable, OutcomeUnknown)
    stored = yield from _create_or_read(key, [data], len(data) + 1, attempts_max, passing)
    return stored is None or stored == data


def _create_or_read(
    key: str,
    parts: Sequence[Buffer],
    length: int,
    attempts_max: int,
    passing: tuple[type[Unavailable], ...],
) -> Steps[bytes | None]:
    """None once it is created, or the first `length` bytes of the object that is there.

    Errors other than `passing` are raised at once.
    """
    unknown = 0
    for attempt in range(1, attempts_max + 1):
        failure: Unavailable = OutcomeUnknown(
            f"could not create an object: key={key} attempts={attempts_max}"
        )
        must_check = True
        try:
            yield Create(key, parts)
            return None
        except AlreadyExists:
            pass
        except passing as error:
            if isinstance(error, NoRoom) and Unavailable not in passing:
                raise
            failure = error
            is_unknown = isinstance(error, OutcomeUnknown)
            unknown += is_unknown
            must_check = is_unknown and unknown >= UNKNOWN_BEFORE_LOOKING
        if must_check:
            with suppress(NotFound, *passing):  # not there after all, or not to be read just now
                stored: bytes = yield GetRange(key, 0, length)
                return stored
        if attempt == attempts_max:
            raise failure
        yield BackOff(attempt)
    raise AssertionError("no attempt")
