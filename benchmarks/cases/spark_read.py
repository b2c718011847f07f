"""Spark reads a topic: `format("logstore")` beside `format("kafka")`, `local[2]`, batch and stream.

MB of values. Sinks: noop, `sum(crc32(value))`, a Delta table. Each measurement is a Spark of its
own that has read the topic once before. Ours reads without a broker, it has gone, and plans for the
cores that there are, as `read_topic` does; what Kafka's uses while it serves is counted. Without
--full a part of the cells; --load takes those whose load begins so, such as "1KB json zstd".
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product, starmap

from benchmarks.contenders import Contender, Contenders, Parts
from benchmarks.load import LARGE, Load, chosen
from benchmarks.options import Options
from benchmarks.spark.filled import Filled, Place
from benchmarks.spark.jars import session_jars
from benchmarks.spark.launch import CORES, run_job
from benchmarks.spark.values import KINDS

JOB = "benchmarks.spark.read_job"
CODECS = ("none", "lz4", "zstd")
SIZES: Mapping[str, tuple[int, int]] = {"1KB": (1000, 1_000_000_000), "100B": (100, 300_000_000)}
"""Bytes of a record, and of all."""

OURS = {"parallelism": str(CORES)}

TUNED = {
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.max.poll.records": "10000",
    "kafka.receive.buffer.bytes": str(1 << 20),
}
"""Of the Kafka source: 8 MiB of a partition at once."""


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    load: str
    mode: str
    sink: str

    @property
    def name(self) -> str:
        return f"{self.load}, {self.mode} {self.sink}"


LOADS: Mapping[str, tuple[str, Load]] = {
    f"{size} {kind} {codec}": (kind, Load(one, total, {**LARGE, "compression.type": codec}))
    for size, (one, total) in SIZES.items()
    for kind in KINDS
    for codec in CODECS
}
DELTA = (Cell("1KB json zstd", "stream", "delta"), Cell("100B json lz4", "stream", "delta"))
FULL = (
    *starmap(Cell, product(LOADS, ("batch", "stream"), ("noop", "sum"))),
    *DELTA,
)
PART = (
    *(Cell("1KB random none", "batch", "noop"), Cell("1KB random none", "stream", "noop")),
    *(Cell("1KB json zstd", "stream", "sum"), Cell("100B random none", "stream", "noop")),
    *(Cell("100B json lz4", "batch", "sum"), *DELTA),
)


def parts(options: Options) -> Parts:
    """One cell after the other; those of one load share its servers."""
    loads = chosen({name: load for name, (_, load) in LOADS.items()}, options)
    for name, load in loads.items():
        cells = [cell for cell in (FULL if options.is_full else PART) if cell.load == name]
        with Filled(LOADS[name][0], load, options) as filled:
            for cell in cells:
                yield _contenders(cell, filled, load, options)


def _contenders(cell: Cell, filled: Filled, load: Load, options: Options) -> Contenders:
    measure = partial(_measure, cell, load, options)
    found: dict[str, Contender] = {"logstore": lambda: measure(filled.log, OURS)}
    if options.has_peer:
        found["kafka"] = lambda: measure(filled.kafka, {})
        found["kafka 8 MiB"] = lambda: measure(filled.kafka, TUNED)
    return found


def _measure(
    cell: Cell, load: Load, options: Options, place: Place, tuning: Mapping[str, str]
) -> dict[str, float]:
    profiles = options.profiles
    found = run_job(
        JOB,
        {
            "jars": [str(jar) for jar in session_jars()],
            "name": cell.name,
            "format": place.format,
            "options": {**place.options, **tuning},
            "mode": cell.mode,
            "sink": cell.sink,
            "brokers": place.brokers,
            "topic": asdict(place.topic),
            "profiles": None if profiles is None else str(profiles),
            "proxy": place.proxy,
        },
    )
    return _figures(cell, place.topic.rows, load.record_bytes, found)


def _figures(
    cell: Cell, rows: int, record_bytes: int, found: Mapping[str, float]
) -> dict[str, float]:
    gigabytes = rows * record_bytes / 1e9
    spark_s = found["java_s"] + found["python_s"]
    figures = {
        f"{cell.name}: MB/s": 1000 * gigabytes / found["wall_s"],
        f"{cell.name}: krec/s": rows / 1000 / found["wall_s"],
        f"{cell.name}: Java CPU-s/GB": found["java_s"] / gigabytes,
        f"{cell.name}: Python CPU-s/GB": found["python_s"] / gigabytes,
        f"{cell.name}: brokers CPU-s/GB": found["brokers_s"] / gigabytes,
        f"{cell.name}: all CPU-s/GB": (spark_s + found["brokers_s"]) / gigabytes,
        f"{cell.name}: peak RSS of a worker, MB": found["worker_peak_bytes"] / 1e6,
        f"{cell.name}: windows": found["windows"],
        f"{cell.name}: last two apart, %": found["last two apart, %"],
    }
    if "gets" in found:
        figures |= {
            f"{cell.name}: GETs": found["gets"],
            f"{cell.name}: bytes fetched per byte wanted": found["got_bytes"] / gigabytes / 1e9,
        }
    return figures
