"""The commit of a sink's batch: every row once, whatever dies, and what it says when it cannot."""

import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from logstore.errors import Invalid, OutcomeUnknown, Retryable
from logstore.formats.manifest import ManifestHead, encode_manifest
from logstore.formats.staged_object import StagedBuilder
from logstore.formats.staging_keys import SinkBatch
from logstore.ports.objects import Buffer
from logstore.staging.brokers import BrokerAddress
from logstore.staging.commit import ADOPT_TIMEOUT_S, CommitReport
from logstore.wire.adopt import AdoptOutcome
from tests.logstore.staging.driving import CLUSTER_ID, ORDERS, SINK, Query


class DriverDied(BaseException):
    """Nothing handles it: what was done stays, what was not is not."""


class DyingStore:
    """The store of a driver that dies at its n-th create, before or after it is carried out."""

    def __init__(self, query: Query, at: int, *, after: bool) -> None:
        self._objects = query.objects
        self._left = at
        self._after = after

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise DriverDied
        self._objects.create(key, parts)
        if self._left == 0:
            raise DriverDied

    def get(self, key: str) -> bytes:
        return self._objects.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._objects.get_range(key, start, length)

    def delete(self, key: str) -> None:
        raise AssertionError("a sink deletes nothing")

    def list(self, prefix: str) -> object:
        raise AssertionError("a sink lists nothing")

    def close(self) -> None:
        """The objects stay."""


def was_complete(report: CommitReport) -> bool:
    """Whether everything had been adopted before this commit asked."""
    return all(one.was_adopted for one in report.adopted.values())


def test_each_row_is_in_its_partition_in_the_order_of_its_task() -> None:
    query = Query()
    reports = [query.commit(batch) for batch in range(4)]

    assert query.logs() == query.wanted(range(4))
    assert all(report.is_ours and not was_complete(report) for report in reports)
    ends = {key: one.end_offset for report in reports for key, one in report.adopted.items()}
    assert ends == {key: len(log) for key, log in query.cluster.logs.items()}


def test_a_small_batch_costs_one_put_and_one_request_per_leader() -> None:
    query = Query()
    query.object_bytes = 1 << 20
    query.commit(0)

    assert [info.key for info in query.objects.list("")] == [SinkBatch(SINK, 0).manifest_key]
    assert Counter(query.cluster.requests) == {"metadata 0": 1, "adopt 0": 1, "adopt 1": 1}


def test_an_empty_batch_costs_nothing() -> None:
    query = Query()
    report = query.commit(0, tasks=[])

    assert not report.adopted and not query.cluster.requests and not list(query.objects.list(""))


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_driver_that_dies_at_any_put_leaves_nothing_twice_and_nothing_out(after: bool) -> None:
    for at in range(1, 30):
        query = Query(at)
        query.commit(0)
        query.store = DyingStore(query, at, after=after)  # type: ignore[assignment]
        try:
            query.commit(1)
            died = False
        except DriverDied:
            died = True
        query.store = query.objects
        query.commit(1)
        query.commit(2)

        assert query.logs() == query.wanted(range(3)), at
        if not died:
            assert at > 3
            return
    pytest.fail("it never came to its end")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_driver_that_dies_at_any_request_leaves_nothing_twice_and_nothing_out(when: str) -> None:
    """At metadata, at each leader, before it adopts or with its answer lost."""
    for at in range(1, 30):
        query = Query(at)
        query.commit(0)
        asked = 0

        def die(_: str, at: int = at) -> None:
            nonlocal asked
            asked += 1
            if asked == at:
                raise DriverDied

        setattr(query.cluster, when, die)
        try:
            query.commit(1)
            died = False
        except DriverDied:
            died = True
        setattr(query.cluster, when, lambda _: None)
        report = query.commit(1)
        query.commit(2)

        assert query.logs() == query.wanted(range(3)), at
        assert not report.is_ours
        if not died:
            assert was_complete(report) and at == 4
            return
    pytest.fail("it never came to its end")


@pytest.mark.seeds(20)
def test_lost_answers_and_leaders_that_move_change_nothing(seed: int) -> None:
    query = Query(seed)
    chance = random.Random(seed)

    def trouble(_: str) -> None:
        if chance.random() < 0.3:
            moved = chance.randrange(2)
            query.cluster.leader_of = lambda one: (one.partition + moved) % 2
            raise chance.choice([Retryable, OutcomeUnknown])("lost")

    query.cluster.before = query.cluster.after = trouble
    for batch in range(5):
        query.cluster.outcomes = chance.choices(
            [AdoptOutcome.BUSY, AdoptOutcome.NOT_LEADER], k=chance.randrange(4)
        )
        query.commit(batch)

    assert query.logs() == query.wanted(range(5))


def test_an_attempt_with_other_rows_is_dropped_and_said() -> None:
    query = Query()
    query.commit(0)
    tasks = query.stage(SinkBatch(SINK, 0), rows=30)

    report = query.commit(0, tasks=tasks)

    assert query.logs() == query.wanted([0])
    assert not report.is_ours and was_complete(report)
    offered = sum(sum(task.rows.values()) for task in tasks)
    assert report.rows_differ == (sum(map(len, query.wanted([0]).values())), offered)


def test_a_checkpoint_put_back_writes_no_batch_again() -> None:
    query = Query()
    for batch in (0, 1, 2, 1, 2, 3):
        query.commit(batch)

    assert query.logs() == query.wanted(range(4))


def test_two_queries_of_one_sink_cannot_both_write() -> None:
    query = Query()
    query.commit(0)
    query.query_id = "another"

    with pytest.raises(Invalid, match=r"another query writes.*theirs=query ours=another"):
        query.commit(0)


def test_a_batch_that_was_swept_fails_the_query() -> None:
    query = Query()
    batch = SinkBatch(SINK, 0)
    parts = encode_manifest(
        batch,
        ManifestHead(query_id="sweeper", run_id="", rows={}, is_void=True),
        StagedBuilder(),
        cluster_id=CLUSTER_ID,
        nonce=bytes([1]) * 16,
        created_ms=0,
    )
    query.objects.create(batch.manifest_key, parts)

    with pytest.raises(Invalid, match="staged objects of this batch were swept"):
        query.commit(0)
    assert not query.cluster.logs


@pytest.mark.parametrize(
    "outcome", [AdoptOutcome.UNKNOWN_TOPIC_ID, AdoptOutcome.INVALID, AdoptOutcome.NOT_ALLOWED]
)
def test_a_final_answer_fails_at_once(outcome: AdoptOutcome) -> None:
    query = Query()
    query.cluster.outcomes = [outcome]

    with pytest.raises(
        Invalid, match=rf"cannot commit the batch.*answer={outcome.name} as scripted"
    ):
        query.commit(0)
    assert query.time.passed_s == 0


def test_a_topic_that_is_created_again_fails_after_a_moment() -> None:
    query = Query()
    query.cluster.topics["orders"] = bytes([3]) * 16

    with pytest.raises(Invalid, match=r"created again.*new sinkId: topic=orders"):
        query.commit(0)
    assert 10 < query.time.passed_s < 20
    assert not [key for key in query.cluster.logs if key.topic_id == ORDERS]


def test_a_topic_that_brokers_learn_of_late_is_waited_for() -> None:
    query = Query()
    del query.cluster.topics["orders"]
    query.time.at(5, lambda: query.cluster.topics.update(orders=ORDERS))
    query.commit(0)

    assert query.logs() == query.wanted([0])


def refuse(error: Exception) -> Callable[[str], None]:
    def raise_it(_: str) -> None:
        raise error

    return raise_it


@pytest.mark.parametrize("error", [Retryable("away"), OutcomeUnknown("no answer")])
def test_a_cluster_that_stays_away_ends_the_batch_in_time(error: Exception) -> None:
    query = Query()
    query.cluster.before = refuse(error)

    with pytest.raises(Retryable, match=r"timeout_s=120 .*goes on with this batch"):
        query.commit(0)
    assert 100 < query.time.passed_s <= 120
    query.cluster.before = lambda _: None
    query.commit(0)
    assert query.logs() == query.wanted([0])


def test_leaders_that_stay_busy_end_the_batch_in_time() -> None:
    query = Query()
    query.cluster.outcomes = [AdoptOutcome.BUSY] * 10_000

    with pytest.raises(
        Retryable, match=r"partitions_left=\d+ of \d+ last=.*answer=BUSY as scripted"
    ):
        query.commit(0)


def test_leaders_that_do_more_each_time_are_not_given_up() -> None:
    query = Query()
    count = 300
    query.cluster.before = lambda _: query.time.pass_s(10)
    query.cluster.outcomes = [AdoptOutcome.BUSY] * count
    query.cluster.progress = [1 + number for number in range(count)]
    query.commit(0)

    assert query.time.passed_s > 2 * ADOPT_TIMEOUT_S
    assert query.logs() == query.wanted([0])


@pytest.mark.parametrize("progress", [[7], [7, -1]])
def test_leaders_that_only_say_how_far_they_are_are_given_up(progress: list[int]) -> None:
    """Also those that forget it, and come as far again."""
    query = Query()
    query.cluster.outcomes = [AdoptOutcome.BUSY] * 10_000
    query.cluster.progress = progress * 10_000

    with pytest.raises(Retryable, match="timeout_s=120"):
        query.commit(0)
    assert query.time.passed_s <= 130


def test_no_broker_that_is_known_is_said() -> None:
    with pytest.raises(Retryable, match="no broker is known; is one running"):
        Query().commit(0, find_brokers=list)


def test_another_broker_is_asked_when_one_is_gone() -> None:
    query = Query()

    def gone(request: str) -> None:
        if request == "metadata 0":
            raise Retryable("gone")

    query.cluster.before = gone
    query.commit(0, find_brokers=lambda: [BrokerAddress("here", 0), BrokerAddress("here", 1)])

    assert query.logs() == query.wanted([0])


def test_batches_that_a_manifest_has_no_room_for_are_staged_by_the_driver() -> None:
    query = Query()
    query.object_bytes = 1 << 20
    tasks = query.stage(SinkBatch(SINK, 0))
    query.commit(0, tasks=tasks, inline_bytes_max=max(task.inline_bytes for task in tasks))

    assert query.logs() == query.wanted([0])
    assert 1 < len(list(query.objects.list(""))) <= 3
