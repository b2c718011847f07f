"""What a broker's metrics say, that all of them are documented, and that they stay few."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from broker.http.decisions.catalogue import METRICS, PROCESS, MetricKind
from broker.http.decisions.label_names import LABEL_CHARACTERS_MAX, OTHER
from logstore.errors import OutcomeUnknown, Retryable, Throttled
from logstore.formats.segment import ENTRY_BYTES, HEADER_BYTES
from logstore.formats.table_row import TABLE, TableRow
from logstore.wire.framing.client import Connection
from logstore.wire.messages.api_versions import ApiVersionsRequest
from logstore.wire.messages.find_coordinator import FindCoordinatorRequest
from logstore.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.group_calls import SETTINGS, commit, join, leave, prepare
from tests.broker.http.pages import Pages, ask, pages_of, scrape
from tests.broker.running import (
    API_VERSIONS,
    FIND_COORDINATOR,
    METADATA,
    Running,
    batch_of,
    fetch,
    produce,
    running_broker,
)
from tests.broker.staging import adopt, staging

TRANSACTION = 1
LIST = Path(__file__).parents[3] / "docs/operations/metrics.md"
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| (.*?) ?\| (.+) \|$", re.MULTILINE)
LAG, COMMITTED = "logstore_group_lag_records", "logstore_group_committed_offset"


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with running_broker(SETTINGS) as running:
        prepare(running)
        yield running


@pytest.fixture
def pages(running: Running) -> Iterator[Pages]:
    with pages_of(running) as pages:
        yield pages


def listed() -> dict[str, tuple[str, tuple[str, ...], str]]:
    """Kind, labels and meaning of every metric in the document."""
    return {
        name: (kind, tuple(re.findall(r"`(\w+)`", labels)), meaning)
        for name, kind, labels, meaning in ROW.findall(LIST.read_text())
    }


def test_the_document_lists_every_metric_as_it_is() -> None:
    reported = listed()
    for metric in METRICS:
        assert reported.pop(metric.name) == (metric.kind, metric.labels, metric.meaning)
    assert {name: kind for name, (kind, _, _) in reported.items()} == PROCESS


def test_what_is_exposed_is_what_is_listed(pages: Pages, client: Connection) -> None:
    pages.running.create_topic("exposed")
    produce(client, "exposed", batch_of(b"v"))
    commit(client, "exposed-group", 0, "exposed")
    pages.times.store.add("create", None, 0.1)
    pages.times.registry.add("update", None, 0.1)
    pages.controller.takeovers.ended("its broker is dead", (0, 1, 2, 3))
    produce(client, "no-such-topic", batch_of(b"v"))
    point_to_table(pages, "exposed", 0)
    found = scrape(pages.port)

    assert found.kinds == {name: kind for name, (kind, _, _) in listed().items()}
    for metric in METRICS:
        sample = f"{metric.name}_count" if metric.kind is MetricKind.HISTOGRAM else metric.name
        assert found.samples.get(sample), f"no sample of {metric.name}"
        for labels in found.samples[sample]:
            assert {name for name, _ in labels} == set(metric.labels)


def point_to_table(pages: Pages, topic: str, end: int) -> None:
    """A table that holds partition 0 up to `end`, as trimming reads it."""
    running = pages.running
    row = TableRow(version=1, ends={0: end}).row()
    topic_id = running.log.topics[topic].topic_id
    running.wait_for(running.log.runner.registry.put_if(TABLE, topic_id.hex(), row))
    running.wait_for(pages.trimming.trim_once())


def test_offsets_wait_for_a_table_from_its_end_on(pages: Pages, client: Connection) -> None:
    pages.running.create_topic("tabled", 2)
    pages.running.create_topic("without-a-table")
    for topic, partition in (("tabled", 0), ("tabled", 0), ("tabled", 1), ("without-a-table", 0)):
        produce(client, topic, batch_of(b"a", b"b"), partition=partition)
    point_to_table(pages, "tabled", 3)
    found = scrape(pages.port)
    waiting = found.values("logstore_table_wait_offsets", "topic")
    assert waiting["tabled"] == 1 + 2
    assert "without-a-table" not in waiting
    assert found.values("logstore_table_wait_seconds", "topic")["tabled"] == 0
    assert scrape(pages.port).values("logstore_table_wait_seconds", "topic")["tabled"] > 0


def test_requests_are_counted_by_api_with_how_long_they_took(
    pages: Pages, client: Connection
) -> None:
    pages.running.create_topic("counted")
    name = "logstore_request_duration_seconds"
    before = scrape(pages.port).values(f"{name}_count", "api")
    for _ in range(3):
        produce(client, "counted", batch_of(b"v"))
    fetch(client, "counted")
    found = scrape(pages.port)
    after = found.values(f"{name}_count", "api")

    assert after["Produce"] - before.get("Produce", 0) == 3
    assert after["Fetch"] - before.get("Fetch", 0) == 1
    assert found.value(f"{name}_bucket", api="Produce", le="+Inf") == after["Produce"]
    assert found.value(f"{name}_sum", api="Produce") > 0
    assert found.value("logstore_connections") >= 1


def test_pipelined_requests_are_each_counted(pages: Pages, client: Connection) -> None:
    pages.running.create_topic("pipelined")
    name = "logstore_request_duration_seconds_count"
    before = scrape(pages.port).values(name, "api")
    with ThreadPoolExecutor(8) as threads:

        def work(_: int) -> None:
            with pages.running.connect() as one:
                for _ in range(20):
                    produce(one, "pipelined", batch_of(b"v"))

        list(threads.map(work, range(8)))
    after = scrape(pages.port).values(name, "api")
    assert after["Produce"] - before.get("Produce", 0) == 160


def test_the_log_and_the_bill_are_printed(pages: Pages, client: Connection) -> None:
    pages.running.create_topic("printed", 2)
    before = scrape(pages.port)
    produce(client, "printed", batch_of(b"a", b"b"))
    pages.counts.add("create", calls=2_000, moved_bytes=7, errors=1)
    after = scrape(pages.port)

    segments = "logstore_segments_stored_total"
    assert after.value(segments) == before.value(segments) + 1
    assert after.value("logstore_committed_seq") == after.value("logstore_open_seq")
    assert after.value("logstore_partition_high_watermark", topic="printed", partition="0") == 2
    assert after.value("logstore_partition_high_watermark", topic="printed", partition="1") == 0
    assert after.value("logstore_partitions_led") == after.value("logstore_partitions_named")
    assert after.value("logstore_store_requests_total", kind="create") == 2_000
    assert after.value("logstore_store_errors_total", kind="create") == 1
    assert after.value("logstore_store_dollars_total") == pytest.approx(0.01)


def test_batches_of_sinks_are_counted_by_their_answers(pages: Pages) -> None:
    running = pages.running
    found = staging(running, running.create_topic("adopted"), "counted")
    found.task({0: [["a"], ["b"]]})
    found.put(running.shared.objects)
    before = scrape(pages.port)
    for _ in range(2):
        adopt(running, found.request(0, 7))
    after = scrape(pages.port)

    def grown(name: str, **labels: str) -> float:
        return after.value(name, **labels) - before.value(name, **labels)

    outcomes = ("adopted", "already", "not_leader", "invalid")
    counts = [grown("logstore_adopts_total", outcome=outcome) for outcome in outcomes]
    assert counts == [1, 1, 2, 0]
    assert grown("logstore_adopted_batches_total") == 2
    size = sum(len(data) for data in found.objects.values())
    assert grown("logstore_adopted_bytes_total") == size - HEADER_BYTES - 2 * ENTRY_BYTES
    assert after.value("logstore_staging_deleted_objects_total") == 0


def test_requests_to_store_and_registry_are_shown_by_how_they_end(pages: Pages) -> None:
    pages.times.store.add("create", Throttled("slow down"), 0.3)
    pages.times.store.add("create", Retryable("a reset"), 0.4)
    pages.times.registry.add("update", OutcomeUnknown("no answer"), 5.0)
    pages.times.units.writes = 1_000_000
    found = scrape(pages.port)
    store, registry = "logstore_store_request_seconds", "logstore_registry_request_seconds"

    assert found.value(f"{store}_sum", kind="create", outcome="throttled") == 0.3
    assert found.value(f"{store}_sum", kind="create", outcome="retryable") == 0.4
    assert found.value(f"{registry}_count", kind="update", outcome="unknown") == 1
    assert found.value("logstore_registry_dollars_total") == pytest.approx(0.625)


def test_errors_are_counted_by_api_and_code_for_each_partition(
    pages: Pages, client: Connection
) -> None:
    pages.running.create_topic("mistaken", 1)
    name = "logstore_request_errors_total"
    unknown, beyond = "UNKNOWN_TOPIC_OR_PARTITION", "OFFSET_OUT_OF_RANGE"

    def counts() -> list[float]:
        found = scrape(pages.port).samples[name]
        places = [
            *(("Produce", unknown), ("Fetch", unknown), ("Fetch", beyond), ("OffsetFetch", "")),
            ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
            ("Metadata", unknown),
        ]
        return [found.get(frozenset({("api", api), ("code", code)}), 0.0) for api, code in places]

    damaged = {("api", "Fetch"), ("code", "CORRUPT_MESSAGE")}
    assert scrape(pages.port).samples[name][frozenset(damaged)] == 0, "a rise from 1 is none"
    produce(client, "no-such-topic", batch_of(b"v"))
    before = counts()
    produce(client, "no-such-topic", batch_of(b"v"))
    produce(client, "mistaken", batch_of(b"v"), partition=7)
    produce(client, "mistaken", batch_of(b"v"))
    fetch(client, "no-such-topic")
    fetch(client, "mistaken", offset=99)
    fetch(client, "mistaken")
    client.call(FIND_COORDINATOR, FindCoordinatorRequest("", TRANSACTION, ["a", "b"]), 4)
    asked = [MetadataRequestTopic(name=name) for name in ("mistaken", "no-such-topic", "nor-this")]
    client.call(METADATA, MetadataRequest(asked, allow_auto_topic_creation=False), 9)
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [2, 1, 1, 0, 2, 2]


def test_traffic_of_a_topic_is_what_producers_sent_and_consumers_got(
    pages: Pages, client: Connection
) -> None:
    pages.running.create_topic("busy")
    batch = batch_of(b"a", b"b", b"c")
    produce(client, "busy", batch)
    produce(client, "busy", b"not a batch" * 10)
    for _ in range(2):
        fetch(client, "busy")
    found = scrape(pages.port)
    sizes = [
        found.value(f"logstore_topic_{name}_total", topic="busy")
        for name in ("bytes_in", "records_in", "bytes_out", "records_out")
    ]
    assert sizes == [len(batch), 3, 2 * len(batch), 6]


def test_connections_are_shown_by_the_software_that_they_name(pages: Pages) -> None:
    name = "logstore_connections_by_software"
    request = ApiVersionsRequest("librdkafka", "2.6.0")
    with pages.running.connect() as one, pages.running.connect() as other:
        for client in (one, other, other):
            client.call(API_VERSIONS, request, 3)
        other.call(API_VERSIONS, ApiVersionsRequest("bad name", "1"), 3)
        found = scrape(pages.port)
        assert found.value(name, software="librdkafka", version="2.6.0") == 2
        connected = found.value("logstore_connections")
        assert sum(found.samples[name].values()) == connected
    clients = pages.running.broker.clients
    pages.running.wait_until(lambda: len(clients.connections) == connected - 2)
    assert "librdkafka" not in scrape(pages.port).values(name, "software")


def test_how_long_records_wait_and_how_full_segments_are(pages: Pages, client: Connection) -> None:
    pages.running.create_topic("flushed")
    before = scrape(pages.port)
    batch = batch_of(b"v" * 5_000)
    produce(client, "flushed", batch)
    after = scrape(pages.port)
    count, size = "logstore_commit_seconds_count", "logstore_flush_bytes_sum"
    assert after.value(count) == before.value(count) + 1
    grown = after.value(size, reason="time") - before.value(size, reason="time")
    assert len(batch) < grown < len(batch) + 1_000


def test_rebalances_are_counted_by_their_reason(pages: Pages, client: Connection) -> None:
    name = "logstore_group_rebalances_total"
    before = scrape(pages.port).values(name, "reason")
    member = join(client, "rebalanced")
    leave(client, "rebalanced", (member.member_id, None))
    after = scrape(pages.port).values(name, "reason")
    grown = {reason: after[reason] - before[reason] for reason in after}
    assert grown == {"joined": 1, "left": 1, "silent": 0, "changed": 0}


def test_partitions_of_a_dead_broker_have_no_leader(pages: Pages) -> None:
    running = pages.running
    topic = running.create_topic("orphaned", 3)
    name = "logstore_partitions_without_leader"
    assert scrape(pages.port).value(name) == 0
    living = topic.rows[1]
    try:
        topic.rows[1] = replace(living, broker=77, replicas=(77, 78))
        topic.rows[2] = replace(living, broker=77, replicas=(77, running.node_id))
        found = scrape(pages.port)
    finally:
        topic.rows[1] = topic.rows[2] = living
    assert found.value(name) == 2
    assert found.value("logstore_partitions_without_live_replica") == 1


def test_lag_is_what_a_group_has_not_committed_yet(pages: Pages, client: Connection) -> None:
    topic = pages.running.create_topic("lagging", 2)
    produce(client, "lagging", batch_of(b"a", b"b", b"c"))
    member = join(client, "lagging-group")
    commit(client, "lagging-group-2", 1, "lagging")
    commit(client, "lagging-group-2", 0, "lagging", partition=1)
    found = scrape(pages.port)

    where = {"group": "lagging-group-2", "topic": topic.name}
    assert found.value(LAG, **where, partition="0") == 2
    assert found.value(LAG, **where, partition="1") == 0
    assert found.value(COMMITTED, **where, partition="0") == 1
    assert found.value("logstore_group_members", group="lagging-group") == 1
    generation = found.value("logstore_group_generation", group="lagging-group")
    assert generation == member.generation_id

    pages.running.delete_topic("lagging")
    assert "lagging-group-2" not in scrape(pages.port).values(LAG, "group")


def test_names_of_any_form_are_labels(pages: Pages, client: Connection) -> None:
    pages.running.create_topic("named")
    names = ['quo"te', "back\\slash", "new\nline", "é\u2028", "{}=,#", OTHER, "x" * 5_000]
    for name in names:
        commit(client, name, 0, "named")
    found = set(scrape(pages.port).values(LAG, "group"))
    assert {name[:LABEL_CHARACTERS_MAX] for name in names} <= found


def test_groups_with_the_same_label_are_summed(pages: Pages, client: Connection) -> None:
    pages.running.create_topic("summed")
    produce(client, "summed", batch_of(b"a", b"b"))
    for ending in "ab":
        commit(client, "y" * 300 + ending, 0, "summed")
    label = "y" * LABEL_CHARACTERS_MAX
    assert scrape(pages.port).value(LAG, group=label, topic="summed", partition="0") == 4


def test_names_are_bounded_and_the_rest_is_one_name(running: Running, client: Connection) -> None:
    for number in range(6):
        running.create_topic(f"many-{number}")
        produce(client, f"many-{number}", batch_of(b"a", b"b"))
        commit(client, f"many-group-{number}", 1, f"many-{number}")
    with pages_of(running, {"logstore.metrics.names.max": "2"}) as pages:
        found = scrape(pages.port)
        topics = set(found.values("logstore_partition_high_watermark", "topic"))
        groups = set(found.values(LAG, "group"))
        assert len(topics) <= 2
        assert OTHER in groups
        assert len(groups) <= 3
        assert found.value(LAG, group=OTHER, topic=OTHER, partition=OTHER) >= 4
        assert found.value("logstore_metrics_left_out") >= 4


def test_series_are_bounded_and_the_rest_is_one_partition(
    running: Running, client: Connection
) -> None:
    topic = running.create_topic("wide", 9)
    for partition in range(9):
        produce(client, "wide", batch_of(b"a"), partition=partition)
        commit(client, "wide-group", 0, "wide", partition=partition)
    with pages_of(running, {"logstore.metrics.series.max": "5"}) as pages:
        found = scrape(pages.port)
        assert len(found.samples["logstore_partition_high_watermark"]) == 5
        assert len(found.samples.get(COMMITTED, {})) == 5
        lags = sum(
            value
            for labels, value in found.samples[LAG].items()
            if {("group", "wide-group"), ("topic", topic.name)} <= labels
        )
        assert lags == 9


def test_requests_at_the_same_time_get_a_page(pages: Pages) -> None:
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda _: ask(pages.port, "/metrics").status, range(32)))
    assert answers == [200] * 32


def test_a_setting_is_on_no_page(running: Running) -> None:
    canary = "canary-7f3a"
    given = {"storage.endpoint": f"http://user:{canary}@host", "storage.profile": canary}
    with pages_of(running, given) as pages:
        for path in ("/metrics", "/healthz", "/readyz", "/no-such-page"):
            answered = ask(pages.port, path)
            assert canary not in f"{answered}"
