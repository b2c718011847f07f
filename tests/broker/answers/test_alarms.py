"""Stored data that cannot be served is reported, but not each time that a client asks."""

import pytest

from broker.answers.alarms import AGAIN_S, TROUBLES_MAX, Alarms
from logstore.errors import Corrupt, LogstoreError, NotFound, Refused, Retryable
from logstore.testing.virtual_loop import VirtualClock, run


class Place:
    """Of a leader, all that an alarm names."""

    topic_id = bytes.fromhex("ab" * 16)
    partition = 3


def tell(
    caplog: pytest.LogCaptureFixture, *errors: LogstoreError, every_s: float = 0.0
) -> list[str]:
    async def main() -> None:
        clock = VirtualClock()
        alarms = Alarms(clock)
        for error in errors:
            alarms.cannot_serve(Place(), 42, error)
            await clock.sleep_s(every_s)

    run(main())
    return [record.getMessage() for record in caplog.records]


def test_it_names_the_place_the_trouble_and_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    (line,) = tell(caplog, Corrupt("segment cut short: epoch=1 seq=7"))

    assert f"topic={'ab' * 16} partition=3 offset=42 segment cut short: epoch=1 seq=7" in line
    assert "logstore fsck" in line


def test_the_same_trouble_is_reported_again_after_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lost = [NotFound("no object")] * 9

    assert len(tell(caplog, *lost, every_s=AGAIN_S / 4)) == 3


def test_each_trouble_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    errors = (Corrupt("a"), NotFound("b"), Refused("c"), Corrupt("a"))

    assert len(tell(caplog, *errors)) == 3


def test_what_passes_by_itself_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    assert tell(caplog, Retryable("the store is busy")) == []


def test_memory_is_bounded_however_much_is_damaged(caplog: pytest.LogCaptureFixture) -> None:
    many = [Corrupt(str(number)) for number in range(TROUBLES_MAX + 1)]

    assert len(tell(caplog, *many)) == len(many)
