"""Makes the golden log of a release, by its own processes: every later version has to read it.

    python -m tests.golden.make_release 0.1.0

Three lives of a broker on a directory: topics of each kind, batches of each codec, an idempotent
producer, headers, tombstones, deleted records, a group; then its compaction, and some records more.
`tests/golden/releases/<version>/` gets `log.tar.xz`, and `expected.json`: what a client read.
"""

import argparse
import json
import signal
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.releases import ROOT, Release, releases
from tests.scenarios.harness.brokers import START_S, bootstrap_of, create_topic, start_broker
from tests.scenarios.harness.process import Process

GOLDEN = ROOT / "tests" / "golden" / "releases"
LEFT_OUT = (".trash", "locks", "registry.db-wal", "registry.db-shm", "registry.db-turn")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPICS: Mapping[str, tuple[int, Mapping[str, str]]] = {
    "orders": (2, {"retention.ms": "-1"}),
    "latest": (1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}),
    "plain": (1, {"logstore.table.enable": "false", "retention.ms": "-1"}),
}
GROUP = "billing"
AT_MS = 1_764_000_000_000
DELETED_BELOW = 3
"""Records of orders-1 that are deleted before compaction."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version")
    version = parser.parse_args().version
    (release,) = [one for one in releases() if one.version == version]
    with tempfile.TemporaryDirectory() as temporary:
        log = Path(temporary) / "log"
        expected = write(log, release)
        folder = GOLDEN / version
        folder.mkdir(parents=True, exist_ok=True)
        pack(log, folder / "log.tar.xz")
        text = json.dumps(expected, indent=1, sort_keys=True)
        (folder / "expected.json").write_text(f"{text}\n", "utf-8")
    return 0


def write(log: Path, release: Release) -> dict[str, Any]:
    with broker_of(log, release.source()) as bootstrap:
        for name, (partitions, configs) in TOPICS.items():
            create_topic(bootstrap, name, partitions, configs)
        for number, codec in enumerate(CODECS):
            produce(bootstrap, codec, number * 10)
        delete_records(bootstrap)
        commit(bootstrap, 4)
    with broker_of(log, release.source()) as bootstrap:
        produce(bootstrap, "none", 50)
    compact(log, release)
    with broker_of(log, release.source()) as bootstrap:
        produce(bootstrap, "lz4", 60)
        commit(bootstrap, 7)
        return read(bootstrap)


@contextmanager
def broker_of(log: Path, source: Path, more: Sequence[str] = ()) -> Iterator[str]:
    """A broker of the version in `source`, stopped in good order."""
    with start_broker(str(log), source=source, more=more) as broker:
        yield bootstrap_of(broker)
        broker.send(signal.SIGTERM)
        assert broker.wait(deadline_s=START_S) == 0, broker.lines


def produce(bootstrap: str, codec: str, first: int) -> None:
    """Ten records to each topic: with and without key, value and headers."""
    settings = {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 50}
    producer = Producer({**settings, "enable.idempotence": True})
    for name, (partitions, _) in TOPICS.items():
        for number in range(first, first + 10):
            key = b"key %d" % (number % 7) if number % 5 or name == "latest" else None
            producer.produce(
                name,
                value=None if number % 9 == 8 and key is not None else b"value %d" % number,
                key=key,
                partition=number % partitions,
                timestamp=AT_MS + number,
                headers=[("number", b"%d" % number), ("empty", None)] if number % 4 == 0 else [],
            )
    assert producer.flush(START_S) == 0


def delete_records(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [TopicPartition("orders", 1, DELETED_BELOW)]
    for answer in admin.delete_records(wanted).values():
        answer.result(START_S)


def commit(bootstrap: str, offset: int) -> None:
    consumer = consumer_of(bootstrap)
    consumer.commit(
        offsets=[TopicPartition("orders", number, offset + number) for number in range(2)],
        asynchronous=False,
    )
    consumer.close()


def compact(log: Path, release: Release) -> None:
    arguments = ["logstore.cli.main", "compact", "--url", str(log), "--now"]
    with Process(arguments, source=release.source()) as run:
        assert run.wait(deadline_s=START_S) == 0, run.lines


def consumer_of(bootstrap: str) -> Consumer:
    settings = {"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False}
    return Consumer({**settings, "auto.offset.reset": "earliest", "enable.partition.eof": True})


def read(bootstrap: str) -> dict[str, Any]:
    """All that a client finds: records by topic and partition, the group's offsets."""
    consumer = consumer_of(bootstrap)
    everything = [TopicPartition(n, p) for n, (count, _) in TOPICS.items() for p in range(count)]
    try:
        offsets = consumer.committed(everything[:2], timeout=START_S)
        return {
            "records": {f"{one.topic}-{one.partition}": _records(consumer, one)
                        for one in everything},
            "group": {f"{one.topic}-{one.partition}": one.offset for one in offsets},
        }  # fmt: skip
    finally:
        consumer.close()


def _records(consumer: Consumer, one: TopicPartition) -> list[list[Any]]:
    first, end = consumer.get_watermark_offsets(one, timeout=START_S)
    consumer.assign([TopicPartition(one.topic, one.partition, first)])
    found: list[list[Any]] = []
    while True:
        message = consumer.poll(START_S)
        assert message is not None, f"nothing comes of {one} after {found[-1:]}"
        if message.error():
            break  # the end of the partition
        headers = [[one[0], _text(one[1])] for one in message.headers() or []]
        at_ms = message.timestamp()[1]
        line = [message.offset(), at_ms, _text(message.key()), _text(message.value()), headers]
        found.append(line)
    assert found[-1][0] < end
    return found


def _text(value: bytes | str | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value


def pack(log: Path, archive: Path) -> None:
    with tarfile.open(archive, "w:xz") as packed:
        for path in sorted(log.rglob("*")):
            name = path.relative_to(log)
            if path.is_file() and name.parts[0] not in LEFT_OUT:
                entry = packed.gettarinfo(path, str(name))
                entry.uid = entry.gid = 0
                entry.uname = entry.gname = ""
                with path.open("rb") as data:
                    packed.addfile(entry, data)


def unpack(version: str, log: Path) -> dict[str, Any]:
    """The golden log in a new folder; what is in it."""
    with tarfile.open(GOLDEN / version / "log.tar.xz") as packed:
        packed.extractall(log, filter="data")
    expected: dict[str, Any] = json.loads((GOLDEN / version / "expected.json").read_text("utf-8"))
    return expected


if __name__ == "__main__":
    sys.exit(main())
