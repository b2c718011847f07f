"""Key compaction beside Apache Kafka's log cleaner: one seeded history through both.

5,000,000 records of 200 B at scale 1, 50,000 keys, a tenth of them tombstones, in four rounds to
one partition by the same client, cleaned after each; the last round has a sixteenth of the keys.
`compact,delete`: the first round is older than `retention.ms`, so both delete it. At the end a
consumer reads from offset 0. Its state must be that of the whole history from log start on, and
each record that is left must have a reason:

    last value of its key          must be there
    tombstone, seen by last pass   `delete.retention.ms` is 0, so it goes with the next pass
    earlier tombstone              ours alone: they may be a fifth of all, and wait for files with
                                   older records of their keys to be rewritten
    replaced record                ours alone: in a file of which less than a fifth is dead
    above the clean end            Kafka's alone: in the active segment

CPU and bytes are those of the last three rounds, MB per CPU-second of their records: the first
round is for the JVM to compile. Ours is one process that runs `logstore compact --workers 1`, the
moves into the table apart; Kafka's is that of its process in a pass, less what it needs idle.
"""

import asyncio
import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stub does not re-export
    AdminClient,
    NewTopic,
)

from benchmarks.contenders import Contenders
from benchmarks.keyed_history import (
    ROUNDS,
    SEGMENT_MS,
    Kept,
    KeyedHistory,
    read_back,
    wait_for_log_start,
)
from benchmarks.options import Options
from benchmarks.peers import kafka_cleaner
from benchmarks.peers.kafka import start_kafka
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.moved import trim_all
from benchmarks.peers.server import Server, running, stop
from logstore.compaction.compactor import Compactor
from logstore.compaction.decisions.summary import Summary
from logstore.compaction.local import LocalCarrier
from logstore.compaction.session import RunOptions
from logstore.history.forms.snapshot import DataFile
from logstore.objects.directory import DirectoryStore
from logstore.ports.clock import SystemClock
from logstore.protocol.rows.metadata import read_table_rows
from logstore.wiring.open import open_existing, open_tables

RECORDS = 5_000_000
POLICIES = ("compact", "compact,delete")
DEAD_RATIO = 0.2
IDLE_S = 3.0
LAST, SEEN, EARLIER = "last value of its key", "tombstone, seen by last pass", "earlier tombstone"
REPLACED, ABOVE = "replaced record", "above the clean end"
CREATION_S = 60.0


@dataclass(slots=True)
class Left:
    """Contents of one side in the end. `files`: of our table."""

    log_start: int
    clean_end: int
    kept: Kept
    state: Mapping[bytes, bytes]
    newest: Mapping[bytes, int]
    """Of each key, of the whole history from log start to the clean end."""
    files: list[DataFile] = field(default_factory=list)


@dataclass(slots=True)
class Spent:
    """Of the rounds that count."""

    clean_s: float = 0.0
    other_s: dict[str, float] = field(default_factory=dict)
    wall_s: float = 0.0
    written: int = 0
    rewritten: int = 0


def contenders(options: Options) -> Contenders:
    found: dict[str, Callable[[], Mapping[str, float]]] = {
        "logstore": partial(_all, on_logstore, options)
    }
    if options.has_peer:
        found["kafka"] = partial(_all, on_kafka, options)
    return found


Side = Callable[[KeyedHistory, str], tuple[Left, Spent, int]]


def _all(side: Side, options: Options) -> Mapping[str, float]:
    figures: dict[str, float] = {}
    for policy in POLICIES:
        if not policy.startswith(options.load):
            continue
        history = history_of(int(RECORDS * options.scale), policy)
        left, spent, left_bytes = side(history, policy)
        check(history, left)
        for figure, value in _figures(history, left, spent, left_bytes).items():
            figures[f"{policy}: {figure}"] = value
    return figures


def history_of(records: int, policy: str) -> KeyedHistory:
    return KeyedHistory(records, is_first_old="delete" in policy)


def _figures(
    history: KeyedHistory, left: Left, spent: Spent, left_bytes: int
) -> Mapping[str, float]:
    megabytes = history.size_bytes * (ROUNDS - 1) / ROUNDS / 1e6
    counts = Counter(reason(history, left, offset) for offset in left.kept)
    return {
        "MB per CPU-s": megabytes / spent.clean_s,
        **{f"MB per CPU-s, {what}": megabytes / s for what, s in spent.other_s.items() if s},
        "MB/s (wall)": megabytes / spent.wall_s,
        "written, MB": spent.written / 1e6,
        "rewritten, MB": spent.rewritten / 1e6,
        "left, MB": left_bytes / 1e6,
        "log start": left.log_start,
        **{f"left: {name}": counts[name] for name in (LAST, SEEN, EARLIER, REPLACED, ABOVE)},
    }


# What is left, and why


def reason(history: KeyedHistory, left: Left, offset: int) -> str:
    """The class of a record that is left."""
    key, is_tombstone = left.kept[offset]
    if offset >= left.clean_end:
        return ABOVE
    if left.newest[key] != offset:
        return REPLACED
    if not is_tombstone:
        return LAST
    return SEEN if offset > history.ends()[-2] else EARLIER


def check(history: KeyedHistory, left: Left) -> None:
    """State and reasons. Fails where one is missing."""
    assert left.state == history.state(left.log_start), "a consumer rebuilds another state"
    assert all(
        history.key(offset) == key and (history.value(offset) is None) == is_tombstone
        for offset, (key, is_tombstone) in left.kept.items()
    ), "an offset shows another record"
    lost = [
        at for at in left.newest.values() if at not in left.kept and history.value(at) is not None
    ]
    assert not lost, f"last values are gone: {lost[:10]}"
    without_reason = [
        offset
        for offset in left.kept
        if reason(history, left, offset) in (REPLACED, EARLIER) and not _is_in_a_file(left, offset)
    ]
    assert not without_reason, f"left without a reason: {without_reason[:10]}"
    _check_files(history, left)


def _check_files(history: KeyedHistory, left: Left) -> None:
    """A file that has replaced records has few of them, and so has the table earlier tombstones."""
    counts: Counter[str] = Counter()
    for file in left.files:
        here = (at for at in left.kept if file.min_offset <= at <= file.max_offset)
        classes = Counter(reason(history, left, at) for at in here)
        assert classes[REPLACED] < max(1, DEAD_RATIO * file.rows), f"{file.path} has {classes}"
        counts += classes
    assert counts[EARLIER] < max(1, DEAD_RATIO * counts.total()), f"the table has {counts}"


def _is_in_a_file(left: Left, offset: int) -> bool:
    return any(file.min_offset <= offset <= file.max_offset for file in left.files)


# The two sides


def on_logstore(history: KeyedHistory, policy: str) -> tuple[Left, Spent, int]:
    settings = ["log.retention.check.interval.ms=500"]
    with running(partial(start_logstore, settings=settings)) as server:
        topic = _created(server.bootstrap, policy, {})
        data = server.directory
        spent = _rounds_of_ours(history, server, topic, policy)
        stop(server.processes)
        trim_all(data)

        def again(_: Path) -> Server:
            return start_logstore(data.parent)

        with running(again) as reader:
            log_start, kept, state = read_back(reader.bootstrap, topic)
        files = asyncio.run(_files(data))
        newest = history.newest(log_start, history.count)
        left = Left(log_start, history.count, kept, state, newest, files)
        return left, spent, sum(file.size_bytes for file in files)


def _rounds_of_ours(history: KeyedHistory, server: Server, topic: str, policy: str) -> Spent:
    url, began_ms = str(server.directory), int(time.time() * 1000)
    compactor = Compactor(url, {}, LocalCarrier(url, {}, workers=1))
    spent, moved_s = Spent(), 0.0
    try:
        compactor.run(RunOptions(now=True))  # imports, and the first look at the log
        for number in range(ROUNDS):
            history.produce(server.bootstrap, topic, number, began_ms)
            history.roll(server.bootstrap, topic, number, began_ms)
            if "delete" in policy and not number:
                wait_for_log_start(server.bootstrap, topic, history.ends()[0])
            moved, move_s, _ = _run(compactor, RunOptions(now=True, cleans=False))
            cleaned, clean_s, wall_s = _run(compactor, RunOptions(now=True))
            if number:
                moved_s += move_s
                spent.clean_s += clean_s
                spent.wall_s += wall_s
                spent.written += moved.topics[topic].bytes_out
                spent.rewritten += cleaned.topics[topic].rewritten_bytes
    finally:
        compactor.close()
    spent.other_s["with the moves"] = spent.clean_s + moved_s
    return spent


def _run(compactor: Compactor, options: RunOptions) -> tuple[Summary, float, float]:
    """Its summary, CPU and wall seconds."""
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    summary = compactor.run(options)
    assert not summary.errors, summary.errors
    return summary, time.process_time() - cpu_s, time.perf_counter() - wall_s


async def _files(data: Path) -> list[DataFile]:
    """Of partition 0 of the one table."""
    opened = await open_existing(str(data), clock=SystemClock(), rng=random.Random())
    try:
        (topic_id,) = await opened.runner.run(read_table_rows())
        snapshot = open_tables(str(data), None, DirectoryStore(data)).snapshot(topic_id)
        assert snapshot is not None
        return list(snapshot.files[0])
    finally:
        await opened.close()


def on_kafka(history: KeyedHistory, policy: str, idle_s: float = IDLE_S) -> tuple[Left, Spent, int]:
    """`idle_s`: how long it is watched without any work, before each round."""
    configs = {
        "segment.ms": str(SEGMENT_MS),
        "segment.bytes": str(2**30),
        "max.message.bytes": str(8 << 20),
    }
    with running(partial(start_kafka, settings=kafka_cleaner.SETTINGS)) as server:
        topic = _created(server.bootstrap, policy, configs)
        folder = server.directory / "data-1"
        spent = _rounds_of_kafka(history, server, topic, policy, idle_s)
        left_bytes = kafka_cleaner.log_bytes(folder, topic)
        log_start, kept, state = read_back(server.bootstrap, topic)
        newest = history.newest(log_start, history.ends()[-1])
        return Left(log_start, history.ends()[-1], kept, state, newest), spent, left_bytes


def _rounds_of_kafka(
    history: KeyedHistory, server: Server, topic: str, policy: str, idle_s: float
) -> Spent:
    folder, began_ms = server.directory / "data-1", int(time.time() * 1000)
    spent, own_s = Spent(), 0.0
    (process,) = server.processes
    for number in range(ROUNDS):
        before = kafka_cleaner.log_bytes(folder, topic)
        history.produce(server.bootstrap, topic, number, began_ms)
        grown = kafka_cleaner.log_bytes(folder, topic) - before
        idle_share = _idle_share(server, idle_s)
        cpu_s, mine_s = server.cpu_s(), kafka_cleaner.cleaner_cpu_s(process)
        wall_s = time.perf_counter()
        history.roll(server.bootstrap, topic, number, began_ms)
        if "delete" in policy and not number:  # deleted before it is cleaned
            wait_for_log_start(server.bootstrap, topic, history.ends()[0])
        else:
            kafka_cleaner.wait_until_cleaned(folder, topic, history.ends()[number])
        wall_s = time.perf_counter() - wall_s
        if number:
            spent.clean_s += server.cpu_s() - cpu_s - idle_share * wall_s
            own_s += kafka_cleaner.cleaner_cpu_s(process) - mine_s
            spent.wall_s += wall_s
            spent.written += grown
            spent.rewritten += kafka_cleaner.log_bytes(folder, topic)
    spent.other_s["its thread alone"] = own_s
    return spent


def _idle_share(server: Server, idle_s: float) -> float:
    """CPU seconds per second that the server needs without any work."""
    if not idle_s:
        return 0.0
    cpu_s, wall_s = server.cpu_s(), time.perf_counter()
    time.sleep(idle_s)
    return (server.cpu_s() - cpu_s) / (time.perf_counter() - wall_s)


def _created(bootstrap: str, policy: str, configs: Mapping[str, str]) -> str:
    """A new topic of one partition that is cleaned whenever there is anything to clean."""
    name = f"state-{uuid.uuid4().hex[:8]}"
    rules = {
        "cleanup.policy": policy,
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "0",
        **configs,
    }
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    made = admin.create_topics([NewTopic(name, 1, 1, config=rules)])
    made[name].result(CREATION_S)
    return name
