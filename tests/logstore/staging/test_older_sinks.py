"""Sinks that a release before wrote by `sinkId` alone: each row once while a query goes over."""

from collections import Counter
from collections.abc import Iterator, Mapping

import pytest

from logstore.errors import Invalid
from logstore.formats.manifest import ManifestHead, encode_manifest
from logstore.formats.staged_object import StagedBuilder
from logstore.formats.staging_keys import SinkBatch, sink_hash
from logstore.formats.topic_partition import TopicPartition
from logstore.ports.objects import ObjectInfo
from logstore.protocol.sinks.staging_sweep import SWEEPER
from logstore.staging.commit import CommitReport
from logstore.staging.older_sinks import OlderSinks
from tests.logstore.staging.adopting import Hook, nothing
from tests.logstore.staging.driving import CLUSTER_ID, Query

NAME = "orders-copy"
OLDER = sink_hash(NAME)


class DriverDied(BaseException):
    """Nothing handles it."""


def before(query: Query) -> Query:
    """The query as the release before runs it."""
    query.sink, query.older_sink = OLDER, None
    return query


def now(query: Query, query_id: str = "query") -> Query:
    query.query_id = query_id
    query.sink, query.older_sink = sink_hash(NAME, query_id), OLDER
    return query


def keys(query: Query, sink: bytes) -> list[str]:
    return [info.key for info in query.objects.list(f"staging/{sink.hex()}/")]


def test_a_new_checkpoint_with_the_name_of_an_old_one_writes_its_first_batches() -> None:
    query = Query()
    for number in (1, 2, 3):  # batch 0 of the first query had no rows
        now(query).commit(number)
    written = query.logs()
    report = now(query, "another").commit(0)

    assert report.is_ours and not any(one.was_adopted for one in report.adopted.values())
    assert query.cluster.row_count() == rows(written) + rows(query.wanted([0]))


def test_a_new_checkpoint_with_the_name_of_a_sink_of_the_release_before_writes_all_of_it() -> None:
    query = Query()
    for number in (1, 2, 3):
        before(query).commit(number)
    written = rows(query.logs())
    another = now(query, "another")
    for number in range(4):
        assert another.commit(number).is_ours

    assert query.cluster.row_count() == written + rows(query.wanted(range(4)))


def rows(logs: Mapping[TopicPartition, list[bytes]]) -> int:
    return sum(map(len, logs.values()))


@pytest.mark.parametrize("last", ["committed", "adopted in part", "staged"])
def test_a_query_goes_on_from_the_release_before_with_each_row_once(last: str) -> None:
    query = before(Query())
    for number in (0, 1):
        query.commit(number)
    if last == "staged":
        query.stage(SinkBatch(OLDER, 2))
    elif last == "adopted in part":
        query.cluster.before = _die_at_the_second_leader()
        with pytest.raises(DriverDied):
            query.commit(2)
        query.cluster.before = nothing
    else:
        query.commit(2)
    now(query)
    for number in (2, 3, 4):
        query.commit(number)

    assert query.logs() == query.wanted(range(5))


def _die_at_the_second_leader() -> Hook:
    asked = 0

    def die(request: str) -> None:
        nonlocal asked
        asked += request.startswith("adopt")
        if asked == 2:
            raise DriverDied

    return die


def test_a_driver_of_the_release_before_that_comes_late_cannot_write_the_batch_too() -> None:
    query = before(Query())
    query.commit(0)
    staged = query.stage(SinkBatch(OLDER, 1))
    now(query).commit(1)

    with pytest.raises(Invalid, match="staged objects of this batch were swept"):
        before(query).commit(1, tasks=staged)
    now(query).commit(2)
    assert query.logs() == query.wanted(range(3))


def test_a_checkpoint_put_back_to_the_release_before_writes_no_batch_again() -> None:
    query = before(Query())
    query.commit(0)
    query.commit(2)  # 1 had no rows
    now(query).commit(3)
    reports = {number: query.commit(number) for number in (0, 1, 2, 3, 4)}

    assert query.logs() == query.wanted([0, 2, 3, 4])
    assert reports[1] == CommitReport({}, False, (0, rows(query.wanted([1]))))
    assert reports[4].is_ours


def test_a_sweeper_between_the_two_changes_nothing() -> None:
    """It voids what the old driver staged and did not commit."""
    query = before(Query())
    query.commit(0)
    _sweep(query, SinkBatch(OLDER, 1))
    for number in (1, 2):
        now(query).commit(number)

    assert query.logs() == query.wanted(range(3))


def _sweep(query: Query, batch: SinkBatch) -> None:
    head = ManifestHead(query_id=SWEEPER, run_id="", rows={}, is_void=True)
    parts = encode_manifest(
        batch, head, StagedBuilder(), cluster_id=CLUSTER_ID, nonce=bytes([1]) * 16, created_ms=0
    )
    query.objects.create(batch.manifest_key, parts)


def test_a_process_looks_once_for_what_the_release_before_wrote() -> None:
    query = now(Query())
    asked = Counter[str]()
    older = _counted(query.older_sinks(), asked)
    query.commit(5, older=older)
    assert asked == {"get": 1, "list": 1}
    for number in (6, 7):
        query.commit(number, older=older)

    assert asked == {"get": 1, "list": 1}
    assert not keys(query, OLDER), "nothing is put for a query that the release before never ran"


def _counted(older: OlderSinks, asked: Counter[str]) -> OlderSinks:
    store = older._store
    get, listed = store.get, store.list

    def counted_get(key: str) -> bytes:
        asked["get"] += 1
        return get(key)

    def counted_list(prefix: str) -> Iterator[ObjectInfo]:
        asked["list"] += 1
        return listed(prefix)

    store.get, store.list = counted_get, counted_list  # type: ignore[method-assign]
    return older
