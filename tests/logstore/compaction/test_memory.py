"""Batches that inflate a thousandfold, in many partitions at once: what a run needs of memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from logstore.records.batch import Codec
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from tests.logstore.compaction.world import TIME_MS, World
from tests.spark_source.places import raise_log_start

MiB = 1 << 20
PARTITIONS = 8
PEAK_MIB_MAX = 1300
"""Measured: 500 to 800, 1,120 on a loaded machine; with all partitions decoded at once 1,600 to
3,100."""

COMPACT = """
import json, pathlib, re, sys
from logstore.cli.main import main
code = main(["compact", "--url", sys.argv[1], "--now", "--workers", "2", "--json"])
status = pathlib.Path("/proc/self/status").read_text()
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) // 1024
print(json.dumps({"code": code, "peak_mib": peak}))
"""


def inflating(values: int, value_bytes: int, codec: Codec) -> bytes:
    records = [Record(n, TIME_MS, None, bytes(value_bytes)) for n in range(values)]
    return encode_batch(records, compression=codec)


def compact(directory: Path) -> int:
    """Peak of the process's resident set, MiB. The modules alone take about 150.

    Linux's own figure for its memory: `ru_maxrss` begins with the peak of the process that starts
    it, which is a test process of any size.
    """
    done = subprocess.run(
        [sys.executable, "-c", COMPACT, str(directory)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["code"] == 0, done.stderr
    peak_mib: int = said["peak_mib"]
    return peak_mib


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "value_bytes", "codec"), [(96, MiB, "gzip"), (1, 96 * MiB, "zstd")]
)
def test_batches_that_inflate_are_decoded_one_at_a_time(
    world: World, values: int, value_bytes: int, codec: Codec
) -> None:
    world.create("orders", PARTITIONS)
    batch = inflating(values, value_bytes, codec)
    for partition in range(PARTITIONS):
        world.log.append("orders", partition, batch)
        world.log.append("orders", partition, inflating(1, 10, codec))

    assert compact(world.directory) < PEAK_MIB_MAX

    for partition in range(PARTITIONS):
        rows = world.rows("orders", partition, ["value", "raw_batch"])
        assert [offset for offset, *_ in rows] == list(range(values + 1))
        assert {raw for *_, raw in rows} == {None}
        assert rows[0][1] == bytes(value_bytes)


@pytest.mark.slow
def test_a_batch_that_inflates_beyond_the_bound_is_kept_as_it_came(world: World) -> None:
    world.create("orders", PARTITIONS)
    batch = inflating(200, MiB, "zstd")
    for partition in range(PARTITIONS):
        world.log.append("orders", partition, batch)
        world.log.append("orders", partition, inflating(1, 10, "zstd"))

    assert compact(world.directory) < PEAK_MIB_MAX

    for partition in range(PARTITIONS):
        first, last = world.rows("orders", partition, ["value", "raw_batch"])
        assert first[:2] == (0, None)
        assert first[2][21:] == batch[21:]  # what the CRC covers
        assert last == (200, bytes(10), None)


def test_a_large_batch_below_the_start_of_a_range_loses_no_row(world: World) -> None:
    """The range begins inside the batch: log start was raised into it."""
    topic_id = world.create("orders", 1)
    world.log.append("orders", 0, inflating(12, MiB, "gzip"))
    world.log.append("orders", 0, inflating(1, 10, "gzip"))

    raise_log_start(world.directory, topic_id, 0, 5)

    world.compact()

    assert [offset for offset, *_ in world.rows("orders", 0)] == list(range(5, 13))
