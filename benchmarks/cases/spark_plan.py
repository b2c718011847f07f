"""The cost of planning a read in Spark's driver: of 10,000 partitions, and of a chain of 1,000,000
segments, with checkpoints at the shipped cadence.

`update` is what a stream asks first and for each batch, `tail` the plan of the newest 300 offsets
of each partition, `all` that of everything. The log is one without segments (`built_log`), since a
plan must read none; reads of objects are counted, and are files here: on S3 each takes some 20 ms.
"""

import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from pyspark.serializers import CPickleSerializer

from benchmarks.built_log import TOPIC_NAME, Shape, build
from benchmarks.contenders import Contenders
from benchmarks.options import Options
from logstore.reading.direct.log_metadata import LogMetadata
from logstore.reading.planning.tasks import ReadTask
from logstore.wiring.open import ReadableLog, open_readable
from spark_source.options import Mode, ReadOptions, parse_options
from spark_source.planning.offsets import Json
from spark_source.progress import Progress
from spark_source.source import TaskPartition

T = TypeVar("T")

PARALLELISM = 2
TAIL_OFFSETS = 300
SHAPES = {
    "10k partitions": Shape(chains=10, partitions=10_000, segments=300, batches_per_segment=100),
    "1M segments": Shape(chains=1, partitions=100, segments=1_000_000, batches_per_segment=2),
}


def contenders(options: Options) -> Contenders:
    return {name: partial(_run, shape, options) for name, shape in SHAPES.items()}


def _run(shape: Shape, options: Options) -> dict[str, float]:
    scaled = Shape(
        shape.chains,
        shape.partitions,
        max(3, int(shape.segments * options.scale)),
        shape.batches_per_segment,
    )
    with tempfile.TemporaryDirectory(prefix="logstore-bench-") as directory:
        log = Path(directory) / "log"
        build(log, scaled)
        # A process of its own, so that its memory is what planning takes.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            return process.submit(_measure, log).result()


def _measure(log: Path) -> dict[str, float]:
    return _Measured(log).figures()


class _Measured:
    """One driver on one log; what each step took."""

    def __init__(self, log: Path) -> None:
        self._found: dict[str, float] = {}
        self._opened: list[ReadableLog] = []
        given = {"path": str(log), "subscribe": TOPIC_NAME, "startingOffsets": "earliest"}
        self._options: ReadOptions = parse_options(given, Mode.STREAM)
        survey = LogMetadata(self._options.url, self._options.topics, open_log=self._open)
        self._progress = Progress(self._options, survey, PARALLELISM)

    def figures(self) -> dict[str, float]:
        try:
            begin = self._measure("start", self._progress.initial)
            end = self._measure("news", partial(self._progress.latest, begin, is_limited=False))
            for name, since in (("tail", _before(end)), ("all", begin)):
                tasks, topics = self._measure(name, partial(self._progress.between, since, end))
                self._weigh(name, tasks, topics)
        finally:
            for log in self._opened:
                log.close()
        return self._found | {"memory peak MB": _peak_kib() / 1000}

    def _open(self, url: str, storage: Mapping[str, str]) -> ReadableLog:
        self._opened.append(open_readable(url, storage))
        return self._opened[-1]

    def _measure(self, name: str, call: Callable[[], T]) -> T:
        before, began, began_cpu = self._reads(), time.perf_counter(), time.process_time()
        found = call()
        self._found |= {
            f"{name}: s (wall)": time.perf_counter() - began,
            f"{name}: CPU s": time.process_time() - began_cpu,
            f"{name}: object reads": self._reads() - before,
        }
        return found

    def _reads(self) -> int:
        return sum(log.counts.requests().gets for log in self._opened)

    def _weigh(self, name: str, tasks: Sequence[ReadTask], topics: Mapping[bytes, str]) -> None:
        """As Spark sends them."""
        pickle = CPickleSerializer()
        parts = [TaskPartition(self._options, one, topics) for one in tasks]
        sizes = [len(pickle.dumps(part)) for part in parts]  # type: ignore[no-untyped-call]
        self._found |= {
            f"{name}: tasks": len(sizes),
            f"{name}: largest task KB": max(sizes) / 1000,
            f"{name}: all tasks MB": sum(sizes) / 1e6,
        }


def _peak_kib() -> int:
    """Resident memory of this process at its highest; `getrusage` would tell its parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def _before(end: Json) -> Json:
    near: Json = json.loads(json.dumps(end))
    for topic in near["topics"].values():
        topic["next"] = {n: max(0, at - TAIL_OFFSETS) for n, at in topic["next"].items()}
    return near
