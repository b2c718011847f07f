"""The results of a run: rates, objects, cost, time, and commands to try next."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from logstore.cli.inspect.log_overview import LogOverview, read_log_overview
from logstore.cli.output import dollars_text, size_text
from logstore.prices import Requests, cost_of
from logstore.wiring.open import open_readable
from tools.demo.demo_log import DemoLog
from tools.demo.history import History
from tools.demo.places import Places
from tools.demo.produce import TOPIC, Produced

HOURS_PER_MONTH = 730


@dataclass(frozen=True, slots=True)
class Stored:
    """The objects that the run left in the log; each was put once."""

    segments: int
    objects: int
    size_bytes: int
    put_dollars: float
    storage_dollars_month: float


def stored(log: DemoLog) -> Stored:
    readable = open_readable(log.url, log.storage)
    try:
        overview = read_log_overview(readable)
    finally:
        readable.close()
    return stored_of(overview)


def stored_of(overview: LogOverview) -> Stored:
    return Stored(
        sum(chain.objects for chain in overview.chains),
        sum(line.objects for line in overview.stored),
        sum(line.size_bytes for line in overview.stored),
        overview.cost.put_dollars,
        overview.cost.storage_dollars_month,
    )


def print_summary(
    console: Console,
    produced: Produced,
    log: DemoLog,
    found: Stored,
    seconds: Mapping[str, float],
) -> None:
    megabytes = produced.value_bytes / 1e6
    reading = cost_of(Requests(gets=found.segments))
    console.print("\n[bold]in numbers[/bold]")
    console.print(
        f"  produced   {produced.records:,} records, {megabytes:.0f} MB of values in "
        f"{produced.seconds:.1f} s: {produced.records / produced.seconds:,.0f} records/s, "
        f"{megabytes / produced.seconds:.1f} MB/s, one client, acks=all, idempotent, lz4"
    )
    console.print(
        f"  stored     {size_text(found.size_bytes)} in {found.segments:,} segments, "
        f"{found.objects:,} objects and as many PUTs in all"
    )
    console.print(
        f"  on S3      {dollars_text(found.put_dollars)} for this run's PUTs, "
        f"{dollars_text(reading)} to read it once, "
        f"{dollars_text(found.storage_dollars_month)} a month to keep it; nothing when idle"
    )
    if log.needs_init:
        console.print("             the probe at the start and the table's requests not counted")
    longest = sorted(seconds.items(), key=lambda item: -item[1])
    times = "; ".join(f"{taken:.1f} s to {name}" for name, taken in longest)
    console.print(f"  time       {times}")


def print_history(console: Console, history: History) -> None:
    moved, rate = history.moved, history.rewound_records / history.rewound_seconds
    console.print(
        f"  history    {moved.rows:,} rows in {moved.files} Parquet files, "
        f"{size_text(moved.size_bytes)}, Delta table version {moved.version}; "
        f"{moved.deleted} objects of the log deleted"
    )
    console.print(
        f"             a Kafka consumer rewound to offset 0: {history.rewound_records:,} records "
        f"in {history.rewound_seconds:.1f} s, {rate:,.0f}/s, by a broker that had just started"
    )
    late = ", ".join(f"{carrier} {delay} min" for carrier, _, delay in history.worst)
    console.print(f"             DuckDB, latest to leave on average: {late}")


def print_next(console: Console, places: Places, log: DemoLog) -> None:
    console.print("\n[bold]what to try next[/bold]")
    for command, what in _next(places, log):
        console.print(f"  {command}  [dim]# {what}[/dim]", soft_wrap=True)


def _next(places: Places, log: DemoLog) -> Iterator[tuple[str, str]]:
    """Commands, and what each is for."""
    if log.ends_with_demo:  # nothing is left to look at
        yield "make demo URL=s3://BUCKET/PREFIX REGISTRY=dynamodb://TABLE", "the same on AWS"
        return
    root = places.root if places.is_kept else None
    if root is None and not log.needs_init:
        yield "make demo DIR=./demo", "keeps everything, for the commands that follow"
        root, log = Path("demo"), DemoLog.in_directory(Path("demo/log"))
    where = log.command_line
    yield f".venv/bin/logstore inspect {where}", "what is in it"
    yield f".venv/bin/logstore inspect {where} topic {TOPIC} --records 2", "records"
    yield f".venv/bin/logstore serve {where}", "a broker on it, for any Kafka client"
    if root is not None:
        yield f".venv/bin/python -m tools.demo --check {root}", "look for every flight again"
