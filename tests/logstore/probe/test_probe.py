"""The probe on stores that keep their promises, and on every kind that does not."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from logstore.errors import (
    AlreadyExists,
    ConditionFailed,
    Denied,
    NotFound,
    OutcomeUnknown,
    Retryable,
    Throttled,
)
from logstore.objects.directory import DirectoryStore
from logstore.objects.memory import MemoryObjects
from logstore.objects.s3 import S3BlockingStore
from logstore.objects.s3_options import S3Options
from logstore.ports.clock import SystemClock
from logstore.ports.objects import BlockingObjectStore, Buffer, ObjectInfo
from logstore.ports.registry import BlockingRowStore, Condition, Row
from logstore.probe import Report, probe
from logstore.probe.track import RACERS
from logstore.registry.dynamodb.rows import BlockingDynamoRows
from logstore.registry.sqlite import SqliteRows
from tests.servers.buckets import new_location
from tests.servers.locked_moto import aws_environment, locked_moto
from tests.servers.tables import dynamo_client

Answer = TypeVar("Answer")


def no_pause(seconds: float) -> None:
    """Back-offs take no time here."""


def probed(store: BlockingObjectStore, rows: BlockingRowStore | None = None) -> Report:
    return probe(store, rows, name="name", rng=random.Random(1), sleep_s=no_pause)


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[BlockingRowStore]:
    opened = SqliteRows(tmp_path / "registry.db").blocking()
    yield opened
    opened.close()


def test_a_directory_and_its_registry_pass_and_nothing_stays(
    tmp_path: Path, rows: BlockingRowStore
) -> None:
    store = DirectoryStore(tmp_path / "objects")
    report = probed(store, rows)
    assert report.is_accepted, report.faults
    assert [(tally.what, tally.winners) for tally in report.races] == [
        ("racing creates", {1: 20}),
        ("racing puts", {1: 10}),
        ("racing updates", {1: 10}),
    ]
    assert list(store.list("")) == []
    assert rows.query("probe/name") == []


@pytest.mark.slow
def test_s3_and_dynamodb_pass_and_nothing_stays() -> None:
    endpoint = locked_moto()
    with aws_environment(), dynamo_client(endpoint) as client:
        store = S3BlockingStore(new_location(endpoint), S3Options(endpoint=endpoint))
        rows = BlockingDynamoRows(client)
        report = probed(store, rows)
        assert report.is_accepted, report.faults
        assert list(store.list("")) == []
        assert rows.query("probe/name") == []


class Objects:
    """Objects in memory as every broken store below has them: it overrides what it breaks."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.lock = threading.Lock()

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        with self.lock:
            if key in self.objects:
                raise AlreadyExists(f"object exists key={key}")
            self.objects[key] = b"".join(parts)

    def get(self, key: str) -> bytes:
        with self.lock:
            if key not in self.objects:
                raise NotFound(f"no object key={key}")
            return self.objects[key]

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.get(key)[start : start + length]

    def delete(self, key: str) -> None:
        with self.lock:
            self.objects.pop(key, None)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        found = sorted(key for key in self.objects if key.startswith(prefix))
        return iter([ObjectInfo(key, len(self.objects[key]), 0) for key in found])

    def close(self) -> None:
        pass


class ChecksThenWrites(Objects):
    """Answers every sequential create correctly, and lets racers in between check and write."""

    def __init__(self) -> None:
        super().__init__()
        self._writing: Counter[str] = Counter()
        self._company = threading.Condition(self.lock)

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        with self._company:
            if key in self.objects:
                raise AlreadyExists(f"object exists key={key}")
            self._writing[key] += 1
            self._company.notify_all()
            if "race" in key:
                self._company.wait_for(lambda: self._writing[key] == RACERS, timeout=10)
            self.objects[key] = b"".join(parts)


def test_a_store_that_lets_two_racers_win_is_refused_with_the_numbers() -> None:
    store = ChecksThenWrites()
    report = probed(store)
    assert not report.is_accepted
    assert "20 of 20 rounds had more than one winner, up to 8 of 8" in report.faults[0]
    assert report.races[0].winners == {8: 20}
    assert store.objects == {}


class Overwrites(Objects):
    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        self.objects[key] = b"".join(parts)


class AnswersFirstKeepsLast(Objects):
    """Of racing creates the first learns that it won, and the last one's bytes stay."""

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        try:
            super().create(key, parts)
        except AlreadyExists:
            if "race" in key:
                self.objects[key] = b"".join(parts)
            raise


class RemembersAbsence(Objects):
    """A cache in front that keeps a 404."""

    def __init__(self) -> None:
        super().__init__()
        self._absent: set[str] = set()

    def get(self, key: str) -> bytes:
        if key in self._absent:
            raise NotFound(f"no object key={key}")
        try:
            return super().get(key)
        except NotFound:
            self._absent.add(key)
            raise


class IgnoresRanges(Objects):
    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.get(key)


class ListsInNoOrder(Objects):
    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return iter(reversed(list(super().list(prefix))))


class KeepsWhatIsDeleted(Objects):
    def delete(self, key: str) -> None:
        pass


@pytest.mark.parametrize(
    ("store", "why"),
    [
        (Overwrites, "a create replaced an object"),
        (AnswersFirstKeepsLast, "the key did not hold the winner's bytes"),
        (RemembersAbsence, "caches absence"),
        (IgnoresRanges, "a ranged read answers other bytes"),
        (ListsInNoOrder, "a listing is not complete, or not in order"),
        (KeepsWhatIsDeleted, "a deleted object is still there"),
    ],
)
def test_a_store_that_breaks_a_promise_is_refused(
    store: Callable[[], BlockingObjectStore], why: str
) -> None:
    report = probed(store())
    assert any(why in fault for fault in report.faults), report.faults


class Forbids(Objects):
    """A policy that lacks one permission."""

    def __init__(self, lacks: str) -> None:
        super().__init__()
        self._lacks = lacks

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        self._need("PutObject")
        super().create(key, parts)

    def get(self, key: str) -> bytes:
        self._need("GetObject")
        try:
            return super().get(key)
        except NotFound:
            self._need("ListBucket")
            raise

    def delete(self, key: str) -> None:
        self._need("DeleteObject")
        super().delete(key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        self._need("ListBucket")
        return super().list(prefix)

    def _need(self, permission: str) -> None:
        if permission == self._lacks:
            raise Denied("403")


@pytest.mark.parametrize("lacks", ["PutObject", "GetObject", "DeleteObject", "ListBucket"])
def test_a_missing_permission_is_named(lacks: str) -> None:
    report = probed(Forbids(lacks))
    assert not report.is_accepted
    assert all(f"s3:{lacks}" in fault for fault in report.faults), report.faults


def test_that_an_absent_key_answers_403_is_distinguished() -> None:
    assert "absent key answers 403" in probed(Forbids("ListBucket")).faults[0]


class Loses(Objects):
    """Every `each`-th create in a race is done and its answer lost; one more is throttled."""

    def __init__(self, each: int) -> None:
        super().__init__()
        self._each = each
        self._count = 0

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        if "race" not in key:
            return super().create(key, parts)
        with self.lock:
            self._count += 1
            number = self._count
        if number % (self._each + 1) == 0:
            raise Throttled("slow down")
        super().create(key, parts)
        if number % self._each == 0:
            raise OutcomeUnknown("lost")
        return None


def test_lost_answers_and_throttling_are_no_fault() -> None:
    assert probed(Loses(5)).is_accepted


def test_a_store_that_never_answers_a_create_cannot_be_judged() -> None:
    report = probed(Loses(1))
    assert any("try again" in fault for fault in report.faults)


class Unreachable(Objects):
    def get(self, key: str) -> bytes:
        raise Retryable("cannot reach the store")


def test_a_store_that_cannot_be_reached_is_no_finding() -> None:
    with pytest.raises(Retryable, match="cannot reach"):
        probed(Unreachable())


class BrokenRows:
    """A registry that passes everything on; what is below breaks one call of it each."""

    def __init__(self, rows: BlockingRowStore) -> None:
        self.rows = rows

    def get(self, pk: str, sk: str) -> Row | None:
        return self.rows.get(pk, sk)

    def query(
        self, pk: str, prefix: str = "", *, after: str | None = None, limit: int = 1000
    ) -> Sequence[tuple[str, Row]]:
        return self.rows.query(pk, prefix, after=after, limit=limit)

    def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self.rows.put_if(pk, sk, row, conditions, write_id)

    def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self.rows.update_if(pk, sk, sets, conditions, write_id)

    def delete_if(self, pk: str, sk: str, conditions: Sequence[Condition], write_id: str) -> None:
        self.rows.delete_if(pk, sk, conditions, write_id)

    def close(self) -> None:
        self.rows.close()


class RacesPuts(BrokenRows):
    """Conditions hold, but for racers."""

    def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self.rows.put_if(pk, sk, row, () if sk.startswith("race/") else conditions, write_id)


class RacesUpdates(BrokenRows):
    def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self.rows.update_if(pk, sk, sets, () if sk == "counter" else conditions, write_id)


class IgnoresConditions(BrokenRows):
    def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self.rows.put_if(pk, sk, row, (), write_id)


class DeletesAnyway(BrokenRows):
    def delete_if(self, pk: str, sk: str, conditions: Sequence[Condition], write_id: str) -> None:
        self.rows.delete_if(pk, sk, (), write_id)


class HidesTheRow(BrokenRows):
    def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        try:
            self.rows.put_if(pk, sk, row, conditions, write_id)
        except ConditionFailed as failed:
            raise ConditionFailed(str(failed), None) from failed


class ReadsLate(BrokenRows):
    def get(self, pk: str, sk: str) -> Row | None:
        return None


class QueriesBackwards(BrokenRows):
    def query(
        self, pk: str, prefix: str = "", *, after: str | None = None, limit: int = 1000
    ) -> Sequence[tuple[str, Row]]:
        return list(reversed(self.rows.query(pk, prefix, after=after, limit=limit)))


class ForbidsQueries(BrokenRows):
    def query(
        self, pk: str, prefix: str = "", *, after: str | None = None, limit: int = 1000
    ) -> Sequence[tuple[str, Row]]:
        raise Denied("not authorized")


class ForbidsDeletions(BrokenRows):
    def delete_if(self, pk: str, sk: str, conditions: Sequence[Condition], write_id: str) -> None:
        raise Denied("not authorized")


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (RacesPuts, "racing puts: 10 of 10 rounds had more than one winner, up to 8 of 8"),
        (RacesUpdates, "racing updates: 10 of 10 rounds had more than one winner"),
        (IgnoresConditions, "ignores conditions"),
        (DeletesAnyway, "a conditional deletion was done"),
        (HidesTheRow, "does not show the row"),
        (ReadsLate, "not strongly consistent"),
        (QueriesBackwards, "a query is not complete or in order"),
        (ForbidsQueries, "dynamodb:Query"),
        (ForbidsDeletions, "dynamodb:DeleteItem"),
    ],
)
def test_a_registry_that_breaks_a_promise_is_refused(
    broken: Callable[[BlockingRowStore], BlockingRowStore], why: str, rows: BlockingRowStore
) -> None:
    report = probed(MemoryObjects(SystemClock()), broken(rows))
    assert any(why in fault for fault in report.faults), report.faults


class LosesAnswers(BrokenRows):
    """Every third write is done and its answer lost."""

    def __init__(self, rows: BlockingRowStore) -> None:
        super().__init__(rows)
        self._count = 0
        self._lock = threading.Lock()

    def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self.rows.put_if(pk, sk, row, conditions, write_id)
        self._perhaps_lost(sk)

    def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self.rows.update_if(pk, sk, sets, conditions, write_id)
        self._perhaps_lost(sk)

    def _perhaps_lost(self, sk: str) -> None:
        with self._lock:
            self._count += 1
            if self._count % 3 == 0:
                raise OutcomeUnknown(f"lost sk={sk}")


def test_a_lost_answer_is_found_by_its_write_id(rows: BlockingRowStore) -> None:
    report = probed(MemoryObjects(SystemClock()), LosesAnswers(rows))
    assert report.is_accepted, report.faults
    assert report.races[1].winners == {1: 10}
