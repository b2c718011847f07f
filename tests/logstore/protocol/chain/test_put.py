"""Putting a segment once (safety rule 2): every outcome that a store's client reports, decided.

The table is what was measured of real clients: a put that won and whose answer was lost comes back
as "already exists" or as "unknown", and a 409 as "already exists" with nothing there.
"""

from typing import Any

import pytest

from logstore.errors import (
    AlreadyExists,
    Denied,
    LogstoreError,
    NotFound,
    OutcomeUnknown,
    Refused,
    Retryable,
    Throttled,
)
from logstore.formats.keys import segment_key
from logstore.formats.segment import HEADER_BYTES, SegmentKind
from logstore.protocol.chain.put import KeyTaken, Stored, create_equal, create_settled, put_once
from logstore.protocol.steps import Create, GetRange
from logstore.testing.scripted import drive
from tests.golden.samples import EPOCH, data, opening, seal

MINE = data().front[:HEADER_BYTES]
SEAL = seal().front
FOREIGN = opening().front
EXISTS = AlreadyExists("412")
ABSENT = NotFound("404")
UNKNOWN = OutcomeUnknown("time-out")
SLOW_DOWN = Throttled("503")
LATER = Retryable("500")
DENIED = Denied("403")

OUTCOMES: dict[str, tuple[list[Any], str]] = {
    "created": ([None], "stored"),
    "answer lost, then 412 on what is mine": ([UNKNOWN, EXISTS, MINE], "stored"),
    "412 at the first attempt on what is mine": ([EXISTS, MINE], "stored"),
    "never arrived, then created": ([UNKNOWN, None], "stored"),
    "throttled, then created": ([SLOW_DOWN, SLOW_DOWN, None], "stored"),
    "a 409: nothing there, then created": ([EXISTS, ABSENT, None], "stored"),
    "a 409 after a time-out, then 412 on what is mine": (
        [UNKNOWN, EXISTS, ABSENT, EXISTS, MINE],
        "stored",
    ),
    "a seal is there": ([EXISTS, SEAL], "taken"),
    "a seal came before the retry": ([UNKNOWN, EXISTS, SEAL], "taken"),
    "another's segment is there": ([EXISTS, FOREIGN], "taken"),
    "something is there that is no segment": ([EXISTS, b"junk", b"junk"], "taken"),
    "one damaged answer, then what is mine": ([EXISTS, b"junk", MINE], "stored"),
    "refused by breaking the connection, twice: a seal": ([UNKNOWN, UNKNOWN, SEAL], "taken"),
    "two lost answers, then what is mine": ([UNKNOWN, UNKNOWN, MINE], "stored"),
    "two lost, nothing there: that settles nothing": ([UNKNOWN, UNKNOWN, ABSENT, None], "stored"),
    "who is there cannot be read just now": ([EXISTS, LATER, EXISTS, MINE], "stored"),
    "who is there cannot be read, then is a seal": ([EXISTS, UNKNOWN, EXISTS, SEAL], "taken"),
    "a long bad day": (
        [UNKNOWN, SLOW_DOWN, EXISTS, ABSENT, LATER, UNKNOWN, ABSENT, EXISTS, MINE],
        "stored",
    ),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_every_outcome_is_settled_by_the_same_bytes_under_the_same_key(name: str) -> None:
    answers, expected = OUTCOMES[name]
    segment = data()

    result, made = drive(put_once(EPOCH, segment), answers)

    assert ("stored" if isinstance(result, Stored) else "taken") == expected
    key = segment_key(EPOCH, segment.seq)
    for request in made:
        assert isinstance(request, Create | GetRange)
        assert request.key == key
        if isinstance(request, Create):
            assert b"".join(request.parts) == b"".join(segment.parts)


def test_the_broker_that_took_the_place_is_named() -> None:
    result, _ = drive(put_once(EPOCH, data()), [EXISTS, SEAL])

    assert isinstance(result, KeyTaken)
    assert result.header is not None
    assert result.header.kind is SegmentKind.SEAL
    junk, _ = drive(put_once(EPOCH, data()), [EXISTS, b"junk", b"junk"])
    assert junk == KeyTaken(None)


def test_what_the_store_refuses_is_not_tried_again() -> None:
    with pytest.raises(Refused):
        drive(put_once(EPOCH, data()), [Refused("403")])


@pytest.mark.parametrize(
    "answers",
    [
        [None],
        [UNKNOWN, None],
        [EXISTS, b"x"],  # there already: its key determines what it holds
        [EXISTS, ABSENT, None],  # a 409
        [EXISTS, LATER, SLOW_DOWN, EXISTS, b"x"],
        [UNKNOWN, UNKNOWN, b"x"],  # stored, and then refused by breaking the connection
        [UNKNOWN, SLOW_DOWN, UNKNOWN, b"x"],
        [UNKNOWN, UNKNOWN, ABSENT, UNKNOWN, LATER, None],
    ],
)
def test_an_object_that_its_key_determines_is_settled_too(answers: list[Any]) -> None:
    _, made = drive(create_settled("checkpoints/1", b"data", attempts_max=9), answers)

    for request, answer in zip(made, answers, strict=True):
        assert isinstance(request, Create | GetRange)
        assert request.key == "checkpoints/1"
        assert isinstance(request, GetRange) or answer != b"x"


@pytest.mark.parametrize("last", [UNKNOWN, SLOW_DOWN])
def test_a_bounded_creation_gives_up_with_what_it_last_heard(last: LogstoreError) -> None:
    with pytest.raises(type(last)):
        drive(create_settled("key", b"data", attempts_max=2), [LATER, last])
    with pytest.raises(OutcomeUnknown, match="time-out"):
        drive(create_settled("key", b"data", attempts_max=2), [UNKNOWN, UNKNOWN, ABSENT])
    with pytest.raises(OutcomeUnknown, match="attempts=1"):
        drive(create_settled("key", b"data", attempts_max=1), [EXISTS, ABSENT])


@pytest.mark.parametrize(
    ("answers", "is_mine"),
    [
        ([None], True),
        ([UNKNOWN, LATER, None], True),
        ([EXISTS, b"data"], True),
        ([UNKNOWN, EXISTS, b"data"], True),
        ([EXISTS, b"datum"], False),
        ([EXISTS, b"dat"], False),
        ([EXISTS, ABSENT, None], True),
        ([EXISTS, SLOW_DOWN, EXISTS, b"other"], False),
        ([UNKNOWN, UNKNOWN, b"data"], True),
        ([UNKNOWN, UNKNOWN, b"datum"], False),
        ([UNKNOWN, UNKNOWN, ABSENT, None], True),
    ],
)
def test_an_object_of_the_same_bytes_is_as_good_as_mine(answers: list[Any], is_mine: bool) -> None:
    found, made = drive(create_equal("topics/1", b"data", attempts_max=9), answers)

    assert found == is_mine
    assert {bytes(r.parts[0]) for r in made if isinstance(r, Create)} == {b"data"}


def test_a_creation_of_equal_bytes_gives_up_with_what_it_last_heard() -> None:
    with pytest.raises(Throttled):
        drive(create_equal("key", b"data", attempts_max=2), [UNKNOWN, SLOW_DOWN])
    with pytest.raises(OutcomeUnknown, match="attempts=1"):
        drive(create_equal("key", b"data", attempts_max=1), [EXISTS, ABSENT])


@pytest.mark.parametrize("answers", [[DENIED], [UNKNOWN, DENIED], [EXISTS, DENIED]])
def test_a_creation_of_equal_bytes_that_is_denied_ends_at_once(answers: list[Any]) -> None:
    with pytest.raises(Denied):
        drive(create_equal("key", b"data", attempts_max=9), answers)
