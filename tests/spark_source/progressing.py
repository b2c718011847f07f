"""A query's `Progress` over a log on disk, in stepped time, with faults; and what it says."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from logstore.errors import LogstoreError
from logstore.ports.registry import Row
from logstore.reading.direct.log_metadata import LogMetadata
from logstore.reading.direct.task_rows import read_rows
from logstore.records.encode import encode_batch, records_of
from logstore.records.record import Record
from logstore.runners.step_runner import RegistryReads
from logstore.wiring.open import ReadableLog, open_objects, open_readable
from spark_source.options import Mode, parse_options
from spark_source.planning.offsets import Json
from spark_source.progress import Progress
from tests.spark_source.log_on_disk import LogOnDisk
from tests.spark_source.stepped_time import SteppedTime


def progress_of(
    log: LogOnDisk,
    mode: Mode = Mode.STREAM,
    *,
    time: SteppedTime | None = None,
    faults: list[LogstoreError] | None = None,
    **options: str | None,
) -> Progress:
    chosen = {"path": str(log.directory), "subscribe": "orders", **options}
    given = {name: text for name, text in chosen.items() if text is not None}
    parsed = parse_options(given, mode)
    time = time or SteppedTime()

    def open_faulty(url: str, storage: Mapping[str, str]) -> ReadableLog:
        opened = open_readable(url, storage)
        assert opened.runner.registry is not None
        registry = FaultyReads(opened.runner.registry, [] if faults is None else faults)
        return replace(opened, runner=replace(opened.runner, registry=registry))

    survey = LogMetadata(
        parsed.url, parsed.topics, clock=time, sleep_s=time.pass_s, open_log=open_faulty
    )
    return Progress(parsed, survey, 2)


def batch(count: int) -> bytes:
    return encode_batch(records_of([(b"key", b"value")] * count, timestamp=1))


def next_of(offsets: Json, topic: str = "orders") -> dict[str, int]:
    found: dict[str, int] = offsets["topics"][topic]["next"]
    return found


def read(log: LogOnDisk, plan: Any) -> list[tuple[str, int, int]]:
    tasks, topics = plan
    columns = ("topic", "partition", "offset")
    return [
        tuple(row.values())
        for task in tasks
        for rows in read_rows(open_objects(str(log.directory)), task, topics, columns)
        for row in rows.to_pylist()
    ]


def timed(*times: int) -> bytes:
    values = [Record(number, time, None, b"v") for number, time in enumerate(times)]
    return encode_batch(values)


class FaultyReads:
    """A registry whose next calls fail, one for each of `faults`."""

    def __init__(self, registry: RegistryReads, faults: list[LogstoreError]) -> None:
        self._registry = registry
        self._faults = faults

    def get(self, pk: str, sk: str) -> Row | None:
        self._fail()
        return self._registry.get(pk, sk)

    def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]:
        self._fail()
        return self._registry.query(pk, prefix)

    def _fail(self) -> None:
        if self._faults:
            raise self._faults.pop()
