"""Reads of a registry without a broker: what they ride out, and what they do not."""

from collections.abc import Sequence
from random import Random

import pytest

from logstore.errors import Denied, LogstoreError, OutcomeUnknown, Refused, Retryable, Throttled
from logstore.ports.registry import Condition, Row
from logstore.registry.reads import PAGE_ROWS, RetryingReads
from logstore.retry import RetryDelays


class Time:
    """Passes only while a caller sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep_s(self, seconds: float) -> None:
        self.now_s += seconds


class Rows:
    """`count` rows of every pk; raises `errors` one by one before it answers."""

    def __init__(self, errors: Sequence[LogstoreError] = (), count: int = 1) -> None:
        self.errors = list(errors)
        self._rows: list[tuple[str, Row]] = [(f"{n:06}", {"n": n}) for n in range(count)]

    def get(self, pk: str, sk: str) -> Row | None:
        self._fail()
        return dict(self._rows).get(sk)

    def query(
        self, pk: str, prefix: str = "", *, after: str | None = None, limit: int = 1000
    ) -> Sequence[tuple[str, Row]]:
        self._fail()
        later = [item for item in self._rows if after is None or item[0] > after]
        return [item for item in later if item[0].startswith(prefix)][:limit]

    def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        raise AssertionError("no test writes")

    update_if = put_if

    def delete_if(self, pk: str, sk: str, conditions: Sequence[Condition], write_id: str) -> None:
        raise AssertionError("no test writes")

    def close(self) -> None:
        pass

    def _fail(self) -> None:
        if self.errors:
            raise self.errors.pop(0)


def reads(rows: Rows, time: Time, deadline_s: float = 15.0) -> RetryingReads:
    return RetryingReads(
        rows,
        Random(1),
        delays=RetryDelays(deadline_s=deadline_s),
        monotonic_s=time.monotonic_s,
        sleep_s=time.sleep_s,
    )


def test_what_may_work_later_is_tried_later() -> None:
    errors = [Retryable("a"), Throttled("b"), OutcomeUnknown("c")]
    time = Time()
    assert reads(Rows(errors), time).get("pk", "000000") == {"n": 0}
    assert time.now_s > 0
    assert reads(Rows(errors), time).query("pk") == [("000000", {"n": 0})]


@pytest.mark.parametrize("error", [Denied("no"), Refused("no")])
def test_what_needs_a_person_is_reported_at_once(error: LogstoreError) -> None:
    time = Time()
    with pytest.raises(type(error)):
        reads(Rows([error]), time).get("pk", "sk")
    assert time.now_s == 0


def test_it_gives_up_at_the_deadline() -> None:
    time = Time()
    with pytest.raises(Throttled):
        reads(Rows([Throttled("slow down")] * 1000), time, deadline_s=5).get("pk", "sk")
    assert 2 < time.now_s <= 5


@pytest.mark.parametrize("count", [0, PAGE_ROWS - 1, PAGE_ROWS, PAGE_ROWS + 1, 2 * PAGE_ROWS])
def test_a_query_reads_every_page(count: int) -> None:
    found = reads(Rows(count=count), Time()).query("pk")
    assert [row["n"] for _, row in found] == list(range(count))
