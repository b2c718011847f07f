"""Probes a registry: racing conditional writes, strongly consistent reads, deletions.

Works in rows of pk `probe/<random>` and removes them. Every missing permission is named, by the
name it has in an IAM policy.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from logstore.errors import ConditionFailed, LogstoreError, OutcomeUnknown, Retryable
from logstore.ports.registry import (
    WRITE_ID,
    BlockingRowStore,
    Comparison,
    Row,
    RowAbsent,
    RowExists,
)
from logstore.probe.races import Race, RaceOutcome, Tally, judge
from logstore.probe.track import ATTEMPTS_MAX, Track, allowed, faults_of

ROUNDS = 10

PUT, GET, UPDATE = "dynamodb:PutItem", "dynamodb:GetItem", "dynamodb:UpdateItem"
QUERY, DELETE = "dynamodb:Query", "dynamodb:DeleteItem"


class RowsProbe:
    """One probe of `rows`; `name` is a string never given before."""

    def __init__(self, rows: BlockingRowStore, track: Track, name: str) -> None:
        self._rows = rows
        self._track = track
        self._name = name
        self._pk = f"probe/{name}"
        self._sks: list[str] = []

    def run(self) -> tuple[list[Tally], list[str]]:
        """The races, and everything that is wrong, theirs included."""
        tallies: list[Tally] = []
        try:
            faults = faults_of(self._check_conditions, self._check_query)
            if not faults:
                tallies = [
                    judge("racing puts", list(self._put_races())),
                    judge("racing updates", list(self._update_races())),
                ]
        except BaseException:
            with suppress(LogstoreError):
                faults_of(self._remove_all)
            raise
        faults += [fault for tally in tallies for fault in tally.faults]
        return tallies, [*faults, *faults_of(self._remove_all)]

    def _check_conditions(self) -> str | None:
        sk = self._sk("one")
        self._put(sk, {"n": 1}, "first")
        if (self._get(sk) or {}).get("n") != 1:
            return "a row just written was not found: reads are not strongly consistent"
        try:
            allowed(PUT, lambda: self._rows.put_if(self._pk, sk, {}, [RowAbsent()], "second"))
        except ConditionFailed as failed:
            if (failed.current or {}).get(WRITE_ID) != f"{self._name}/first":
                return "a failed condition does not show the row as it stands"
        else:
            return "a conditional write replaced a row: the registry ignores conditions"
        is_two = Comparison("n", "=", 2)
        for what, permission, write in (
            ("update", UPDATE, partial(self._update, sk, {"n": 3}, is_two, "third")),
            ("deletion", DELETE, partial(self._delete, sk, is_two)),
        ):
            try:
                allowed(permission, partial(self._track.retry, write))
            except ConditionFailed:
                continue
            return f"a conditional {what} was done although its condition was false"
        return None

    def _check_query(self) -> str | None:
        sks = sorted(self._sk(f"query/{name}") for name in ("b", "a", "c"))
        for sk in sks:
            self._put(sk, {}, sk)
        answer = allowed(
            QUERY, lambda: self._track.retry(lambda: self._rows.query(self._pk, "query/"))
        )
        return None if [sk for sk, _ in answer] == sks else "a query is not complete or in order"

    def _put_races(self) -> Iterator[Race]:
        for number in range(ROUNDS):
            sk = self._sk(f"race/{number:02}")
            yield self._race(sk, f"put/{number}", partial(self._put_first, sk))

    def _update_races(self) -> Iterator[Race]:
        sk = self._sk("counter")
        self._put(sk, {"value": 0}, "counter")
        for number in range(ROUNDS):
            yield self._race(sk, f"update/{number}", partial(self._raise, sk, number))

    def _put_first(self, sk: str, racer: int, write_id: str) -> None:
        self._rows.put_if(self._pk, sk, {"racer": racer}, [RowAbsent()], write_id)

    def _raise(self, sk: str, value: int, racer: int, write_id: str) -> None:
        sets: Row = {"value": value + 1, "racer": racer}
        self._rows.update_if(self._pk, sk, sets, [Comparison("value", "=", value)], write_id)

    def _race(self, sk: str, what: str, write: Callable[[int, str], None]) -> Race:
        outcomes = self._track.race(
            lambda racer: self._attempt(f"{self._name}/{what}/{racer}", partial(write, racer))
        )
        racer = (self._get(sk) or {}).get("racer")
        return Race(tuple(outcomes), racer if isinstance(racer, int) else None)

    def _attempt(self, write_id: str, write: Callable[[str], None]) -> RaceOutcome:
        """A lost answer is looked for by write id, as every writer of the registry does."""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                write(write_id)
                return RaceOutcome.WON
            except ConditionFailed as failed:
                is_mine = (failed.current or {}).get(WRITE_ID) == write_id
                return RaceOutcome.WON if is_mine else RaceOutcome.LOST
            except (Retryable, OutcomeUnknown):
                self._track.back_off(attempt)
        return RaceOutcome.UNKNOWN

    def _remove_all(self) -> str | None:
        permission = f"{DELETE}, so the rows of pk {self._pk} stay"
        for sk in self._sks:
            with suppress(ConditionFailed):  # never written, or an answer was lost
                allowed(permission, partial(self._track.retry, partial(self._delete, sk)))
            if self._get(sk) is not None:
                return f"a deleted row is still there: pk={self._pk} sk={sk}"
        return None

    def _put(self, sk: str, row: Row, write: str) -> None:
        """Of a row without other writers."""
        write_id = f"{self._name}/{write}"
        allowed(
            PUT,
            lambda: self._track.retry(lambda: self._rows.put_if(self._pk, sk, row, [], write_id)),
        )

    def _update(self, sk: str, sets: Row, condition: Comparison, write: str) -> None:
        self._rows.update_if(self._pk, sk, sets, [condition], f"{self._name}/{write}")

    def _delete(self, sk: str, condition: Comparison | None = None) -> None:
        self._rows.delete_if(self._pk, sk, [condition or RowExists()], f"{self._name}/delete")

    def _get(self, sk: str) -> Row | None:
        return allowed(GET, lambda: self._track.retry(lambda: self._rows.get(self._pk, sk)))

    def _sk(self, name: str) -> str:
        self._sks.append(name)
        return name
