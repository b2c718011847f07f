"""Segments that were damaged behind the log's back: reported by chain and seq, the rest goes on."""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from logstore.formats.keys import segment_key
from logstore.formats.segment import HEADER_BYTES, decode_header
from logstore.reading.direct.reader import LogReader
from logstore.wiring.open import open_readable
from tests.scenarios.harness.brokers import bootstrap_of, refusal, start_broker, stop
from tests.scenarios.harness.data import read, write

pytestmark = pytest.mark.clients

PARTS = [[f"part {part} value {number}" for number in range(10)] for part in range(3)]
WHOLE = [value for part in PARTS for value in part]
OTHERS = [f"other {number}" for number in range(10)]

Damage = Callable[[Path], None]


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.unlink()
    path.write_bytes(data)


def flip_a_bit_of_the_header(path: Path) -> None:
    flip(path, 50)


def flip_a_bit_of_the_index(path: Path) -> None:
    flip(path, HEADER_BYTES + 40)


def flip_a_bit_of_a_batch(path: Path) -> None:
    flip(path, decode_header(path.read_bytes()).body_at + 80)


def cut(path: Path, length: int) -> None:
    data = path.read_bytes()[:length]
    path.unlink()
    path.write_bytes(data)


def cut_in_the_body(path: Path) -> None:
    cut(path, path.stat().st_size - 7)


def cut_in_the_index(path: Path) -> None:
    cut(path, HEADER_BYTES + 10)


def cut_in_the_header(path: Path) -> None:
    cut(path, 20)


def empty(path: Path) -> None:
    cut(path, 0)


def remove(path: Path) -> None:
    path.unlink()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("filled") / "log"
    with start_broker(str(directory)) as broker:
        bootstrap = bootstrap_of(broker)
        for part in PARTS:
            write(bootstrap, "hurt", part)
        write(bootstrap, "kept", OTHERS)
        stop(broker)
    return directory


@pytest.fixture
def log(filled: Path, tmp_path: Path) -> Path:
    """A copy of a stopped log: topic `hurt` in three segments or more, topic `kept` in others."""
    return Path(shutil.copytree(filled, tmp_path / "log"))


def segment_of(log: Path, topic: str, offset: int) -> tuple[Path, int, int]:
    """File, chain and seq of the segment that holds an offset of partition 0."""
    opened = open_readable(str(log))
    try:
        reader = LogReader(opened)
        topics = {name: row for name, row in reader.topics().items() if name == topic}
        ((key, view),) = reader.partitions(topics).items()
        (segments,) = reader.segment_ranges(key, view.row, offset, offset + 1)
    finally:
        opened.close()
    return log / segment_key(segments.chain, segments.first_seq), segments.chain, segments.first_seq


@pytest.mark.parametrize(
    "damage",
    [
        flip_a_bit_of_a_batch,
        cut_in_the_body,
        cut_in_the_index,
        cut_in_the_header,
        empty,
        remove,
    ],
)
def test_what_lies_in_a_damaged_segment_is_not_served_and_all_else_is(
    log: Path, damage: Damage
) -> None:
    offset = len(PARTS[0])  # where the second part begins
    path, chain, seq = segment_of(log, "hurt", offset)
    whole = path.read_bytes()
    damage(path)

    with start_broker(str(log)) as broker:
        bootstrap = bootstrap_of(broker)
        with asking_for(bootstrap, "hurt", offset):
            broker.wait_for(names(chain, seq))
        assert read(bootstrap, "kept") == OTHERS
        write(bootstrap, "hurt", ["and on"])
        restore(path, whole)
        assert read(bootstrap, "hurt") == [*WHOLE, "and on"]
        stop(broker)


@pytest.mark.parametrize(
    "damage",
    [flip_a_bit_of_the_index, flip_a_bit_of_the_header, cut_in_the_index, cut_in_the_header, empty],
)
def test_a_takeover_that_meets_a_damaged_segment_is_refused(tmp_path: Path, damage: Damage) -> None:
    log = tmp_path / "log"
    with start_broker(str(log)) as broker:
        write(bootstrap_of(broker), "hurt", WHOLE)
        broker.kill()  # no checkpoint: the next start reads every segment
        broker.wait()
    path, chain, seq = segment_of(log, "hurt", 0)
    whole = path.read_bytes()
    damage(path)

    with start_broker(str(log)) as broker:
        line = refusal(broker)

    assert re.search(names(chain, seq), line), line
    restore(path, whole)
    with start_broker(str(log)) as broker:
        assert read(bootstrap_of(broker), "hurt") == WHOLE
        stop(broker)


@contextmanager
def asking_for(bootstrap: str, topic: str, offset: int) -> Iterator[None]:
    """A consumer in the background that asks for an offset, and must not be given anything."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        yield
        message = consumer.poll(0)
        assert message is None or message.error() is not None
    finally:
        consumer.close()


def restore(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def names(chain: int, seq: int) -> str:
    """Finds a line that names the segment, by numbers or by its key."""
    return rf"epoch={chain} seq={seq}\b|{segment_key(chain, seq)}"
