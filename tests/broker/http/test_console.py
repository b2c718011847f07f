"""The console's JSON documents: what they say is what the Admin API says, a page at a time."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from broker.http import cluster_json
from broker.http.cluster_json import cluster_document
from broker.http.console import POLICY
from broker.http.groups_json import GROUPS_A_PAGE, TOPICS_MAX
from broker.http.topics_json import PARTITIONS_A_PAGE, TOPICS_A_PAGE
from logstore.cli.brokers.cluster_calls import LATEST, Cluster
from logstore.cli.brokers.group_calls import describe_group, list_groups, offsets_at
from logstore.cli.command import BootstrapAddress
from tests.broker.group_calls import SETTINGS, commit, join, prepare, prepare_cluster
from tests.broker.http.pages import Answered, Pages, ask, pages_of
from tests.broker.running import DEADLINE_S, Running, batch_of, produce, running_broker
from tests.broker.running_cluster import running_cluster
from tools.full_wire import Connection

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with running_broker(SETTINGS) as running:
        prepare(running)
        yield running


@pytest.fixture
def pages(running: Running) -> Iterator[Pages]:
    with pages_of(running) as pages:
        yield pages


def document(pages: Pages, path: str, status: int = 200) -> Any:
    answered = ask(pages.port, f"/api/v1/{path}")
    assert answered.status == status, answered
    assert answered.headers["Content-Type"] == "application/json; charset=utf-8"
    return json.loads(answered.body)


def every(pages: Pages, kind: str) -> list[Any]:
    """All of a kind, over all pages."""
    first = document(pages, f"{kind}/1")
    found = list(first[kind])
    for number in range(2, first["pages"] + 1):
        found += document(pages, f"{kind}/{number}")[kind]
    assert len(found) == first["total"]
    return found


def cluster_of(*brokers: Running) -> Cluster:
    return Cluster([BootstrapAddress("127.0.0.1", one.listener.port) for one in brokers])


def write(running: Running, topic: str, partition: int, count: int) -> None:
    with running.connect() as client:
        for _ in range(count):
            produce(client, topic, batch_of(b"a", b"b"), partition=partition)


def test_topics_partitions_and_offsets_are_those_of_the_admin_api(pages: Pages) -> None:
    running = pages.running
    running.create_topic("orders", 3)
    write(running, "orders", 1, 2)
    found = {one["topic"]: one for one in every(pages, "topics")}
    with cluster_of(running) as cluster:
        ends = offsets_at(cluster, "orders", range(3), LATEST)
    assert found["orders"]["offsets_in_segments"] == sum(ends.values()) == 4
    assert found["orders"]["leaders"] == [{"broker": 1, "alive": True, "partitions": 3}]
    assert found["orders"]["partitions_known"] == found["orders"]["partitions"] == 3
    assert sorted(found) == sorted(running.log.topics)
    rows = document(pages, "partitions/orders/1")["partitions"]
    assert {one["partition"]: one["end"] for one in rows} == ends
    assert {one["leader"] for one in rows} == {1}


def test_groups_members_and_lag_are_those_of_the_admin_api(pages: Pages) -> None:
    running = pages.running
    running.create_topic("read", 2)
    write(running, "read", 0, 2)
    with running.connect() as client:
        commit(client, "readers", 1, "read")
        commit(client, "readers", 0, "read", partition=1)
    named = Connection.open("127.0.0.1", running.listener.port, DEADLINE_S, client_id=HOSTILE)
    with named:
        join(named, f"members of {HOSTILE}", version=9)
        found = {one["group"]: one for one in every(pages, "groups")}
        with cluster_of(running) as cluster:
            assert sorted(found) == sorted(line.group for line in list_groups(cluster))
            for group, shown in found.items():
                described = describe_group(cluster, group)
                assert shown["lag"] == sum(one.lag or 0 for one in described.offsets)
                assert shown["members"] == len(described.members)
                assert shown["state"] == described.state
                assert shown["clients"] == sorted({one.client_id for one in described.members})
    assert found["readers"]["lag"] == 3
    assert found["readers"]["topics"] == [
        {"topic": "read", "partitions": 2, "lag": 3, "lag_unknown": 0}
    ]
    assert found[f"members of {HOSTILE}"]["clients"] == [HOSTILE]


def test_names_of_clients_leave_as_ascii_and_as_no_page(pages: Pages) -> None:
    with pages.running.connect() as client:
        commit(client, "gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n\u2028", 0, "any")
    answered = ask(pages.port, "/api/v1/groups/1")
    assert answered.body.isascii()
    assert answered.headers["X-Content-Type-Options"] == "nosniff"
    assert answered.headers["Content-Security-Policy"].startswith("default-src 'none';")


def test_a_group_names_few_of_its_topics(pages: Pages) -> None:
    topics = [f"few-{number:02}" for number in range(TOPICS_MAX + 2)]
    with pages.running.connect() as client:
        for topic in topics:
            pages.running.create_topic(topic)
            commit(client, "reader of many", 0, topic)
        produce(client, topics[-1], batch_of(b"a"))
    (found,) = [one for one in every(pages, "groups") if one["group"] == "reader of many"]
    assert [one["topic"] for one in found["topics"]] == [topics[-1], *topics[: TOPICS_MAX - 1]]
    assert found["topics_left_out"] == 2


def test_the_cluster_document_counts_what_is_there(pages: Pages) -> None:
    running = pages.running
    found = document(pages, "cluster")
    assert found["broker"]["id"] == found["brokers"][0]["id"] == 1
    assert found["broker"]["epoch"] == running.log.epoch
    assert found["topics"] == len(running.log.topics)
    assert found["partitions"] == found["brokers"][0]["led"]
    assert found["partitions_without_leader"] == 0
    assert found["controller"] is None  # none acts here, and the document is there
    with running.connect() as client:
        commit(client, "counted", 0, "any")
    later = document(pages, "cluster")
    before = found["requests"].get("OffsetCommit", {"count": 0})
    assert later["requests"]["OffsetCommit"]["count"] == before["count"] + 1
    assert later["broker"]["at_s"] > found["broker"]["at_s"]


def test_partitions_are_counted_for_the_cluster_document_in_slices(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_json, "AT_ONCE", 2)
    running = pages.running
    running.create_topic("in-slices", 40)

    def slices() -> int:
        return sum(1 for _ in cluster_document(pages.observed, "1", 0.0))

    assert running.do(slices) >= len(running.log.topics) - 1 + 40 / 2


def test_pages_are_bounded_and_together_hold_all(pages: Pages) -> None:
    running = pages.running
    for number in range(TOPICS_A_PAGE + 5):
        running.create_topic(f"many-{number:03}")
    first = document(pages, "topics/1")
    assert len(first["topics"]) == TOPICS_A_PAGE
    assert first["pages"] == 2
    names = [one["topic"] for one in every(pages, "topics")]
    assert names == sorted(running.log.topics)
    assert document(pages, "topics/3")["topics"] == []


def test_partitions_and_groups_come_in_pages_too(pages: Pages) -> None:
    running = pages.running
    running.create_topic("wide", PARTITIONS_A_PAGE + 1)
    first = document(pages, "partitions/wide/1")
    assert len(first["partitions"]) == PARTITIONS_A_PAGE
    (last,) = document(pages, "partitions/wide/2")["partitions"]
    assert last["partition"] == PARTITIONS_A_PAGE
    with running.connect() as client:
        for number in range(GROUPS_A_PAGE + 1):
            commit(client, f"group {number:03}", 0, "wide")
    assert len(document(pages, "groups/1")["groups"]) == GROUPS_A_PAGE


@pytest.mark.parametrize(
    "path",
    ["topics/", "topics/0", "topics/-1", "topics/1/", "topics/1?a", "topics/9999999", "groups/x"],
)
def test_what_is_no_number_of_a_page_is_refused(pages: Pages, path: str) -> None:
    assert "page" in document(pages, path, 404)["error"]


def test_a_topic_that_there_is_not_is_named_as_missing(pages: Pages) -> None:
    assert "no topic" in document(pages, "partitions/nothing/1", 404)["error"]


def test_before_an_epoch_serves_the_documents_say_so(running: Running) -> None:
    pages = Pages(running, {})
    try:
        assert document(pages, "cluster")["broker"]["state"] == "starting"
        for path in ("topics/1", "groups/1", "partitions/t/1"):
            assert "starting" in document(pages, path, 503)["error"]
    finally:
        running.do(pages.door.close)


def test_the_page_may_load_files_of_this_port_alone(pages: Pages) -> None:
    page: Answered = ask(pages.port, "/console")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert page.headers["Content-Security-Policy"] == POLICY
    assert "unsafe" not in POLICY
    assert "<script>" not in page.body and "style=" not in page.body and "http" not in page.body
    for kind, text in (("css", "text/css"), ("js", "text/javascript"), ("svg", "image/svg+xml")):
        assert ask(pages.port, f"/console.{kind}").headers["Content-Type"].startswith(text)


@pytest.mark.slow
def test_every_broker_shows_all_leaders_and_its_own_groups() -> None:
    with running_cluster(2, SETTINGS) as brokers:
        prepare_cluster(brokers)
        made = brokers[1].log.create_topic("t", 2, {}, assignments=[(1,), (2,)])
        brokers[1].wait_for(made)
        for number, one in brokers.items():
            one.wait_until(lambda one=one: "t" in one.log.topics)  # type: ignore[misc]
            leaders = one.log.topics["t"].leaders
            one.wait_until(lambda n=number, led=leaders: n - 1 in led)  # type: ignore[misc]
        with brokers[1].connect() as client, brokers[2].connect() as other:
            codes = [
                commit(one, "g", 0, "t", partition=n) for one in (client, other) for n in (0, 1)
            ]
        assert codes.count(0) == 2
        groups = []
        for one in brokers.values():
            with pages_of(one) as pages:
                found = document(pages, "cluster")
                assert {row["id"]: row["alive"] for row in found["brokers"]} == {1: True, 2: True}
                topic = next(t for t in every(pages, "topics") if t["topic"] == "t")
                assert topic["leaders"] == [
                    {"broker": 1, "alive": True, "partitions": 1},
                    {"broker": 2, "alive": True, "partitions": 1},
                ]
                assert topic["partitions_known"] == 1
                groups += every(pages, "groups")
        assert [(one["group"], one["lag_unknown"]) for one in groups] == [("g", 1)]
