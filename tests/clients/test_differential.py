"""Raw requests of every key and version: Apache Kafka and we answer alike, field by field."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.peers.kafka import start_kafka
from benchmarks.peers.server import stop
from broker.handlers.served_requests import HANDLERS
from logstore.ports.clock import SystemClock
from tests.clients.differential import admin_cases, group_cases, record_cases
from tests.clients.differential.accepted import ACCEPTED
from tests.clients.differential.compare import MISSING, Accepted, Difference, Verdict, compare
from tests.clients.differential.peer import Peer
from tests.clients.java_users import why_no_tools
from tests.scenarios.harness.brokers import bootstrap_of, start_broker
from tools.full_wire import APIS

SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "50",
    "message.max.bytes": "1048588",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "1",
}


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Peer, Peer]]:
    """Apache Kafka, and ours, both asked everything."""
    if why_no_tools():
        pytest.skip("Apache Kafka's tools need Java 17 and Maven, once")
    folder = tmp_path_factory.mktemp("differential")
    more = [text for pair in SETTINGS.items() for text in ("--set", "=".join(pair))]
    with start_broker(str(folder / "ours"), more=more) as broker:
        kafka = start_kafka(_made(folder / "theirs"), settings=SETTINGS)
        try:
            asked = Peer(kafka.bootstrap), Peer(bootstrap_of(broker))
            now_ms = SystemClock().now_ms()
            with closing(asked[0]), closing(asked[1]), ThreadPoolExecutor(2) as threads:
                list(threads.map(lambda peer: _ask_all(peer, now_ms), asked))
            yield asked
        finally:
            stop(kafka.processes)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _ask_all(peer: Peer, now_ms: int) -> None:
    for cases in (record_cases, group_cases, admin_cases):
        cases.prepare(peer)
    record_cases.run(peer, now_ms)
    group_cases.run(peer)
    admin_cases.run(peer)


def _verdict(peers: tuple[Peer, Peer]) -> Verdict:
    theirs, ours = peers
    return compare(theirs.answers, ours.answers, ACCEPTED)


@pytest.mark.clients
def test_no_difference_is_without_a_reason(peers: tuple[Peer, Peer]) -> None:
    verdict = _verdict(peers)
    sys.stdout.write("\n".join([*verdict.lines(), ""]))
    assert not verdict.unexplained, "\n".join(map(str, verdict.unexplained))


@pytest.mark.clients
def test_no_reason_is_without_a_difference(peers: tuple[Peer, Peer]) -> None:
    assert not [one for one, count in _verdict(peers).explained.items() if not count]


@pytest.mark.clients
def test_every_key_and_version_that_is_served_is_asked(peers: tuple[Peer, Peer]) -> None:
    served = {
        (key, version)
        for key, handler in HANDLERS.items()
        if key in APIS
        for version in range(handler.version_min, handler.version_max + 1)
    }
    for peer in peers:
        assert served <= peer.asked


def test_a_difference_needs_a_reason_and_a_reason_a_difference() -> None:
    theirs: dict[str, dict[str, object]] = {"Fetch v4 x": {"a": 1, "b": 2}, "Fetch v5 x": {"a": 1}}
    ours: dict[str, dict[str, object]] = {"Fetch v4 x": {"a": 9, "c": 3}, "Fetch v5 x": {"a": 1}}
    used = Accepted(r"Fetch v\d x", "a", "why")
    idle = Accepted(r"Fetch v\d y", "a", "why")
    verdict = compare(theirs, ours, [used, idle])
    assert verdict.explained == {used: 1, idle: 0}
    assert verdict.unexplained == [
        Difference("Fetch v4 x", "b", 2, MISSING),
        Difference("Fetch v4 x", "c", MISSING, 3),
    ]
    assert (verdict.request_count, verdict.field_count) == (2, 3)
    assert len(verdict.lines()) == 5
