"""`import logstore`: both tiers as Arrow, without Spark or a broker, and light until it is used."""

import gc
import pkgutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import logstore
from logstore.reading.planning.extents import Extent
from logstore.records.arrow_schema import arrow_schema
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from tests.spark_source.log_on_disk import LogOnDisk
from tests.spark_source.moved import Mover
from tests.spark_source.places import raise_log_start

pytestmark = pytest.mark.slow

TIME_MS = 1_700_000_000_000
PARTITIONS = 3
COLUMNS = [
    *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType"),
    *("headers", "timestamp_ms", "leader_epoch", "raw_batch"),
]
IMPORT_MS_MAX = 150


class Written:
    """A topic `orders` in a log whose broker has stopped: two lives, so two chains."""

    def __init__(self, directory: Path, filler: bytes = b"") -> None:
        self.directory = directory
        self.filler = filler
        self.count = 0
        with LogOnDisk(directory, checkpoint_segments=4) as log:
            self.topic_id = log.create_topic("orders", PARTITIONS)
            self.append(log, 10)
        with LogOnDisk(directory, checkpoint_segments=4) as log:
            self.append(log, 10)
        self.mover = Mover(directory, self.topic_id)

    def append(self, log: LogOnDisk, rounds: int) -> None:
        """Five records for each partition in each round."""
        for _ in range(rounds):
            log.append_all([("orders", n, self._batch()) for n in range(PARTITIONS)])

    def _batch(self) -> bytes:
        records = []
        for place in range(5):
            n = self.count = self.count + 1
            headers = (("n", b"%d" % n), ("none", None)) if n % 3 else ()
            key = None if n % 4 == 0 else b"key%d" % n
            records.append(Record(place, TIME_MS + 1000 * n, key, self._value(n), headers))
        compress = self.count % 2 and not self.filler
        return encode_batch(records, compression="lz4" if compress else "none")

    def _value(self, n: int) -> bytes:
        return b"value %d" % n * 20 + self.filler


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path / "log")


def rows_of(reader: Any) -> list[dict[str, Any]]:
    """In the order of partitions; each partition's offsets must rise as they come."""
    rows: list[dict[str, Any]] = reader.read_all().to_pylist()
    for number in range(PARTITIONS):
        offsets = [row["offset"] for row in rows if row["partition"] == number]
        assert all(first < second for first, second in pairwise(offsets))
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def read(written: Written, **more: Any) -> list[dict[str, Any]]:
    with logstore.open(str(written.directory)) as log:
        return rows_of(log.read("orders", **{"columns": COLUMNS, **more}))


@pytest.mark.slow
def test_every_record_comes_once_from_segments_from_the_table_and_from_both(
    written: Written,
) -> None:
    before = read(written)
    assert len(before) == written.count
    assert {row["value"].split(b"value ")[1] for row in before} == {
        b"%d" % (n + 1) for n in range(written.count)
    }
    assert before[0]["topic"] == "orders"

    written.mover.move({0: 100, 1: 35})
    assert read(written) == before
    assert written.mover.trim() > 0
    assert read(written) == before
    written.mover.move()
    written.mover.trim()
    assert read(written) == before


@pytest.mark.slow
def test_what_moves_while_a_reader_is_read_comes_once(tmp_path: Path) -> None:
    """30 MB, more than a reader holds at first: the rest is read after it has moved."""
    written = Written(tmp_path / "log", filler=bytes(100_000))
    before = read(written)
    written.mover.move({0: 50, 1: 50})
    with logstore.open(str(written.directory)) as log:
        early = log.read("orders", columns=COLUMNS)
        reader = log.read("orders", columns=COLUMNS)
    first = reader.read_next_batch()
    assert first.num_rows < 100, "segments have been fetched"

    written.mover.move()
    assert written.mover.trim() > 0
    written.mover.merge(1)
    rest = reader.read_all().to_batches()

    assert rows_of(pa.RecordBatchReader.from_batches(first.schema, [first, *rest])) == before
    assert rows_of(early) == before


def test_a_read_ends_where_the_log_ended_when_it_was_asked_for(written: Written) -> None:
    with logstore.open(str(written.directory)) as log:
        count = written.count
        reader = log.read("orders")
        with LogOnDisk(written.directory) as broker:
            written.append(broker, 2)
        assert reader.read_all().num_rows == count
        assert log.read("orders").read_all().num_rows == written.count


@pytest.mark.slow
def test_columns_come_as_asked_for_and_types_are_those_of_the_source(written: Written) -> None:
    written.mover.move({0: 50})
    with logstore.open(str(written.directory)) as log:
        assert log.read("orders").schema.names == COLUMNS[:7]
        for name in COLUMNS:
            reader = log.read("orders", columns=[name])
            expected = {"topic": pa.string(), "partition": pa.int32()}.get(name)
            expected = expected or arrow_schema([name]).field(0).type
            assert reader.schema.field(0).type == expected
            found = reader.read_all()
            found.validate(full=True)
            assert found.schema.names == [name]
            assert found.num_rows == written.count
        assert log.read("orders", columns=["offset", "key"]).schema.names == ["offset", "key"]


def test_starts_and_ends_hold_in_both_tiers(written: Written) -> None:
    whole = read(written)
    written.mover.move({0: 60, 1: 100, 2: 30})
    written.mover.trim()
    with logstore.open(str(written.directory)) as log:
        some = rows_of(log.read("orders", start={0: 55, 1: 70}, end={0: 65, 2: 2}, columns=COLUMNS))
        bounds = {0: (55, 65), 1: (70, 100), 2: (0, 2)}
        assert some == [
            row
            for row in whole
            if bounds[row["partition"]][0] <= row["offset"] < bounds[row["partition"]][1]
        ]
        since = datetime.fromtimestamp((TIME_MS + 1000 * 100) / 1000, UTC)
        until = datetime.fromtimestamp((TIME_MS + 1000 * 250) / 1000, UTC)
        timed = rows_of(log.read("orders", start=since, end=until, columns=COLUMNS))
        assert timed == [row for row in whole if since <= row["timestamp"] < until]
        assert log.read("orders", start="latest").read_all().num_rows == 0


@pytest.mark.slow
def test_duckdb_reads_the_reader(written: Written) -> None:
    written.mover.move({0: 50})
    with logstore.open(str(written.directory)) as log:
        orders = log.read("orders", columns=["partition", "offset", "value"])
        with duckdb.connect() as connection:
            connection.register("orders", orders)
            found = connection.sql(
                'select partition, count(*), max("offset") from orders group by 1 order by 1'
            ).fetchall()
    assert found == [(number, 100, 99) for number in range(PARTITIONS)]


def test_topics_are_shown_with_their_extents(written: Written) -> None:
    raise_log_start(written.directory, written.topic_id, 1, 20)
    with logstore.open(str(written.directory)) as log:
        assert "closed" not in repr(log)
        assert log.topics() == {
            "orders": logstore.TopicExtent(
                written.topic_id, {0: Extent(0, 100), 1: Extent(20, 100), 2: Extent(0, 100)}
            )
        }


def test_bad_input_is_reported_at_the_call(written: Written, tmp_path: Path) -> None:
    log = logstore.open(str(written.directory))
    with pytest.raises(logstore.Invalid, match="no such topic: order; "):
        log.read("order")
    with pytest.raises(logstore.Invalid, match="no such columns: valu; choose among: key, value"):
        log.read("orders", columns=["valu"])
    with pytest.raises(logstore.Invalid, match=r"give a list: \['value'\]"):
        log.read("orders", columns="value")
    with pytest.raises(logstore.Invalid, match="must be distinct"):
        log.read("orders", columns=["value", "value"])
    with pytest.raises(logstore.Invalid, match="must be distinct"):
        log.read("orders", columns=[])
    with pytest.raises(logstore.Refused, match="is not in the log: offset=101"):
        log.read("orders", end={0: 101})
    reader = log.read("orders")
    log.close()
    log.close()
    for call in (log.topics, lambda: log.read("orders")):
        with pytest.raises(
            logstore.Invalid, match=r"the log is closed: url=.*logstore\.open again"
        ):
            call()
    assert "closed" in repr(log)
    assert reader.read_all().num_rows == written.count
    with pytest.raises(logstore.Refused, match="no log here"):
        logstore.open(str(tmp_path / "elsewhere"))
    with pytest.raises(logstore.LogstoreError, match="regio"):
        logstore.open(str(written.directory), storage={"storage.regio": "x"})


def test_records_that_retention_takes_before_they_are_read_are_reported(written: Written) -> None:
    written.mover.move()
    with logstore.open(str(written.directory)) as log:
        reader = log.read("orders")
    raise_log_start(written.directory, written.topic_id, 0, 100)
    written.mover.merge(0)
    with pytest.raises(logstore.Refused, match='log start is 100 now; read it again: start="earl'):
        reader.read_all()


@pytest.mark.slow
def test_nothing_stays_open(written: Written) -> None:
    before = set(threading.enumerate())
    with logstore.open(str(written.directory)) as log:
        half = log.read("orders")
        half.read_next_batch()
        log.read("orders").read_all()
    half.close()
    del half
    gc.collect()
    assert set(threading.enumerate()) <= before  # others may end of themselves


def test_the_front_door_is_light_and_lazy() -> None:
    program = (
        "import sys, time; began = time.perf_counter(); import logstore; "
        "took = (time.perf_counter() - began) * 1000; "
        "loaded = [n for n in sys.modules if n.startswith('logstore.') or n == 'pyarrow']; "
        "assert loaded == [], loaded; "
        "logstore.open, logstore.Corrupt, logstore.LogView; "
        "assert 'pyarrow' not in sys.modules and 'pyspark' not in sys.modules; "
        "print(took, logstore.__version__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    took_ms, version = done.stdout.split()
    assert float(took_ms) < IMPORT_MS_MAX
    assert version[0].isdigit()


def test_every_name_of_the_front_door_leads_somewhere() -> None:
    for name in logstore.__all__:
        assert getattr(logstore, name) is not None
        assert name in dir(logstore)
    with pytest.raises(AttributeError, match="no attribute 'opened'"):
        logstore.opened  # noqa: B018


def test_no_module_has_a_name_of_the_front_door() -> None:
    """Importing a module sets its name in its package: `logstore.open` would be a module then."""
    modules = {module.name for module in pkgutil.iter_modules(logstore.__path__)}
    assert not modules & set(logstore.__all__)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    gc.collect()
    assert [one for one in threading.enumerate() if one not in before and not one.daemon] == []
