"""For each alert the fault that it is there for, on a stage of real brokers, and its end."""

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass

import psutil
from confluent_kafka import Consumer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from logstore.formats.segment import decode_header
from logstore.history.forms.names import TABLES
from logstore.ports.clock import SystemClock, blocking_sleep_s
from tests.scenarios.harness.alert_stage import KEYED, TOPIC, VALUE, AlertStage, throttle
from tests.servers.locked_moto import ENVIRONMENT

VICTIM = 3
SLOW_S = 4
FEW_SEGMENTS, MANY_SEGMENTS = 20, 80
FEW_ENTRIES = 2
WRITE_S = 420.0
LATE = 3
"""Segments before the end of a chain: those of the puts under way are behind it."""
HEADER_BIT_AT, BATCH_BYTE_AT = 50, 200
LOOK_S = 0.5
TAIL = -2_000 - 600
"""librdkafka's form of an offset: so many records before the end."""
SET_S = 120.0
SET_APPEND_ONLY = """
import json, sys
from deltalake import DeltaTable
table = DeltaTable(sys.argv[1], storage_options=json.loads(sys.argv[2]))
table.alter.set_table_properties({"delta.appendOnly": sys.argv[3]})
"""
EPOCH = re.compile(r" epoch (\d+) listening on ")
FROZEN_PART = 0.75


@dataclass(frozen=True, slots=True)
class AlertDrill:
    """`fault` lasts as long as its context; then `alerts` fire, and behind it they end.

    `divisor` shortens the times of their rules.
    """

    alerts: Sequence[str]
    what: str
    fault: Callable[[AlertStage], AbstractContextManager[None]]
    divisor: int = 30


@contextmanager
def broker_killed(stage: AlertStage) -> Iterator[None]:
    stage.kill(VICTIM)
    yield
    stage.start(VICTIM)


@contextmanager
def killed_and_its_chain_damaged(stage: AlertStage) -> Iterator[None]:
    """The controller cannot take its chain over: the header of a late segment is damaged."""
    number, _ = _written(stage, FEW_SEGMENTS)
    stage.kill(number)
    key = _chain_of(stage, number)[-LATE]
    data = stage.get(key)
    stage.put(key, _flipped(data, HEADER_BIT_AT))
    yield
    stage.put(key, data)
    stage.start(number)


@contextmanager
def registry_silent(stage: AlertStage) -> Iterator[None]:
    stage.rows.play("hang")
    yield
    stage.rows.play()


@contextmanager
def store_silent(stage: AlertStage) -> Iterator[None]:
    stage.store.play("hang methods=PUT")
    yield
    stage.store.play()


@contextmanager
def store_full(stage: AlertStage) -> Iterator[None]:
    stage.store.play("507 methods=PUT path=/chains/")
    yield
    stage.store.play()


@contextmanager
def rights_taken(stage: AlertStage) -> Iterator[None]:
    stage.store.play("403 methods=PUT path=/chains/")
    yield
    stage.store.play()


@contextmanager
def store_slow(stage: AlertStage) -> Iterator[None]:
    stage.store.play(f"slow methods=PUT path=/chains/ seconds={SLOW_S}")
    yield
    stage.store.play()


@contextmanager
def reads_silent(stage: AlertStage) -> Iterator[None]:
    """Writes go on: what follows chains, and what reads old records, waits."""
    stage.store.play("hang methods=GET path=/chains/")
    yield
    stage.store.play()


@contextmanager
def store_throttles(stage: AlertStage) -> Iterator[None]:
    stage.store.play("503 rate=0.3")
    yield
    stage.store.play()


@contextmanager
def segment_damaged(stage: AlertStage) -> Iterator[None]:
    """A bit of a segment that is in no broker's memory and no table flips, and a consumer reads."""
    _, keys = _written(stage, MANY_SEGMENTS)
    middle = ((key, stage.get(key)) for key in keys[len(keys) // 2 :])
    key, data = next((key, data) for key, data in middle if len(data) > len(VALUE))
    stage.put(key, _flipped(data, decode_header(data).body_at + BATCH_BYTE_AT))
    stop = threading.Event()
    reader = threading.Thread(target=_read_lately_written, args=(stage.bootstrap, stop))
    reader.start()
    try:
        yield
    finally:
        stage.put(key, data)
        stop.set()
        reader.join()


@contextmanager
def broker_short_of_cpu(stage: AlertStage) -> Iterator[None]:
    stop = threading.Event()
    process = stage.process(VICTIM)
    limit = threading.Thread(target=throttle, args=(process, stop), kwargs={"part": FROZEN_PART})
    limit.start()
    try:
        yield
    finally:
        stop.set()
        limit.join()


@contextmanager
def compactor_frozen(stage: AlertStage) -> Iterator[None]:
    """Another one, too, that begins when another broker becomes the controller."""
    stop = threading.Event()
    freezer = threading.Thread(target=_freeze_compactors, args=(stage, stop))
    freezer.start()
    try:
        yield
    finally:
        stop.set()
        freezer.join()
        for child in _compactors(stage):
            with suppress(psutil.NoSuchProcess):
                child.send_signal(signal.SIGCONT)


@contextmanager
def table_log_damaged(stage: AlertStage) -> Iterator[None]:
    """An entry of a table's log is no entry any more: what the table holds is not believed."""
    key = _entries(stage, TOPIC)[-1]
    data = stage.get(key)
    stage.put(key, b"damaged")
    yield
    stage.put(key, data)


@contextmanager
def table_may_lose_no_rows(stage: AlertStage) -> Iterator[None]:
    """Its owner forbids what key compaction has to do."""
    _entries(stage, KEYED)
    _set_append_only(stage, KEYED, "true")
    yield
    _set_append_only(stage, KEYED, "false")


DRILLS = (
    AlertDrill(["LogstoreBrokerDown"], "kill -9 of a broker", broker_killed),
    AlertDrill(
        ["LogstorePartitionsWithoutLeader"],
        "kill -9, and a bit of its chain flips",
        killed_and_its_chain_damaged,
    ),
    AlertDrill(
        ["LogstoreNoController", "LogstoreReadLeaseLost", "LogstoreNotReady"],
        "the registry answers no request",
        registry_silent,
    ),
    AlertDrill(["LogstoreDamagedData"], "a bit of a stored segment flips", segment_damaged),
    AlertDrill(["LogstoreDenied"], "the right to put is taken away", rights_taken),
    AlertDrill(["LogstoreDiskFull"], "the store has no room for a put", store_full),
    AlertDrill(
        ["LogstoreStoreStalled", "LogstoreProducersHeld"],
        "the store answers no put",
        store_silent,
    ),
    AlertDrill(["LogstoreReadsFail"], "the store answers no get of a segment", reads_silent),
    AlertDrill(["LogstoreCommitsSlow"], f"each put takes {SLOW_S} s", store_slow, 60),
    AlertDrill(["LogstoreThrottled"], "the store refuses 3 of 10 requests", store_throttles, 60),
    AlertDrill(
        ["LogstoreLoopHeld"],
        f"a broker gets no CPU for {FROZEN_PART} of each second",
        broker_short_of_cpu,
    ),
    AlertDrill(
        ["LogstoreCompactionFailing", "LogstoreTablesBehind"],
        "the compactor is frozen",
        compactor_frozen,
        20,
    ),
    AlertDrill(
        ["LogstoreKeysNotCompacted"],
        "its owner makes a table append-only",
        table_may_lose_no_rows,
        40,
    ),
    AlertDrill(
        ["LogstoreTrimmingFails"], "an entry of a table's log is damaged", table_log_damaged, 15
    ),
)


def _freeze_compactors(stage: AlertStage, stop: threading.Event) -> None:
    while not stop.wait(LOOK_S):
        for child in _compactors(stage):
            with suppress(psutil.NoSuchProcess):
                child.send_signal(signal.SIGSTOP)


def _compactors(stage: AlertStage) -> list[psutil.Process]:
    """What brokers run beside them."""
    return [
        child
        for number in stage.brokers
        for child in psutil.Process(stage.process(number).pid).children()
    ]


def _flipped(data: bytes, at: int) -> bytes:
    hurt = bytearray(data)
    hurt[at] ^= 0x10
    return bytes(hurt)


def _written(stage: AlertStage, count: int) -> tuple[int, list[str]]:
    """The broker with the longest chain, and its keys, once there are so many."""
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + WRITE_S
    while True:
        chains = {number: _chain_of(stage, number) for number in stage.brokers}
        number = max(chains, key=lambda one: len(chains[one]))
        if len(chains[number]) >= count:
            return number, chains[number]
        assert clock.monotonic_s() < deadline_s, f"no broker writes: {len(chains[number])}"
        blocking_sleep_s(LOOK_S)


def _chain_of(stage: AlertStage, number: int) -> list[str]:
    """Keys of the chain that a broker writes now, in order."""
    lines = "\n".join(stage.process(number).lines)
    chain = f"/{int(EPOCH.findall(lines)[-1]):020d}/"
    return [key for key in stage.keys("chains/") if chain in key]


def _entries(stage: AlertStage, topic: str) -> list[str]:
    """Keys of the entries of a topic's table, once it has some: a compaction has run."""
    prefix = f"{TABLES}/{_topic_id(stage, topic)}/_delta_log/"
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + WRITE_S
    while True:
        entries = [key for key in stage.keys(prefix) if key.endswith(".json")]
        if len(entries) >= FEW_ENTRIES:
            return entries
        assert clock.monotonic_s() < deadline_s, f"no table is written: {topic}"
        blocking_sleep_s(LOOK_S)


def _set_append_only(stage: AlertStage, topic: str, value: str) -> None:
    """By a process of its own: delta-rs waits for the server, which is in this one, with the
    interpreter locked.
    """
    options = {
        "AWS_ENDPOINT_URL": stage.endpoint,
        "AWS_ACCESS_KEY_ID": ENVIRONMENT["AWS_ACCESS_KEY_ID"],
        "AWS_SECRET_ACCESS_KEY": ENVIRONMENT["AWS_SECRET_ACCESS_KEY"],
        "AWS_REGION": ENVIRONMENT["AWS_REGION"],
        "AWS_ALLOW_HTTP": "true",
        "conditional_put": "etag",
    }
    root = f"{stage.location.url}/{TABLES}/{_topic_id(stage, topic)}"
    command = [sys.executable, "-c", SET_APPEND_ONLY, root, json.dumps(options), value]
    subprocess.run(command, check=True, timeout=SET_S)


def _topic_id(stage: AlertStage, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    described = admin.describe_topics(TopicCollection([topic]))[topic]
    number = described.result(30).topic_id
    high, low = number.get_most_significant_bits(), number.get_least_significant_bits()
    return f"{high & (1 << 64) - 1:016x}{low & (1 << 64) - 1:016x}"


def _read_lately_written(bootstrap: str, stop: threading.Event) -> None:
    client = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "check.crcs": True,
            "log_level": 0,
        }
    )
    partitions = list(client.list_topics(TOPIC, 30).topics[TOPIC].partitions)
    while not stop.is_set():
        client.assign([TopicPartition(TOPIC, number, TAIL) for number in partitions])
        for _ in range(200):
            if stop.is_set():
                break
            client.poll(0.1)
    client.close()
