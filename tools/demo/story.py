"""The demo from start to end."""

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice

from pyspark.sql import SparkSession

from logstore.cli.log.probing import ports
from logstore.wiring.initialise import initialise
from tools.demo.broker_process import running_broker
from tools.demo.check import faults, rows_of
from tools.demo.demo_log import DemoLog
from tools.demo.flights import FlightId, read_flights, read_ids
from tools.demo.history import History, move, rewind, worst_carriers
from tools.demo.phases import Phases
from tools.demo.picture import HourOfCarrier, draw
from tools.demo.places import IVY, Places
from tools.demo.produce import PARTITIONS, Produced, create_topic, produce
from tools.demo.queries import (
    DELAYS,
    decoded,
    log_ends,
    log_records,
    running_queries,
    wait_for,
)
from tools.demo.spark import has_fetched, spark_session
from tools.demo.summary import print_history, print_next, print_summary, stored

CATCH_UP_TIMEOUT_S = 600.0


class NotAllThere(Exception):
    """The check found flights missing, doubled or out of order; the text says which."""


def run_demo(places: Places, log: DemoLog, phases: Phases, count: int, *, drop_one: bool) -> None:
    """Raises `NotAllThere`, or an error of one of its parts."""
    console = phases.console
    console.print(f"[bold]{count:,} flights through a log in {log.url}[/bold]")
    places.write_facts(count, log)
    if log.needs_init:
        with phases.phase("make the log and its table, probe both"):
            initialise(log.url, log.registry, log.storage, ports())
    with ExitStack() as stack:
        with phases.phase("start a broker, create a topic"):
            address = stack.enter_context(running_broker(log, places))
            create_topic(address)
        spark = _start_spark(places, phases, stack)
        produced, hours = _stream(places, log, phases, spark, address, count, drop_one=drop_one)
        with phases.phase("look for every flight"):
            problems = find_problems(places, log, spark, count)
        with phases.phase("draw a picture"):
            draw(hours, places.picture)
        with phases.phase("stop Spark and the broker"):
            stack.close()
    found = stored(log)
    history, more = _show_history(places, log, phases, count)
    problems += more
    print_summary(console, produced, log, found, phases.seconds)
    print_history(console, history)
    console.print(f"  picture    {places.picture}", soft_wrap=True)
    _conclude(problems, phases, count)
    print_next(console, places, log)


def _show_history(
    places: Places, log: DemoLog, phases: Phases, count: int
) -> tuple[History, list[str]]:
    """With the broker and Spark gone: faults in the records that a rewound consumer reads."""
    ends = log_ends(log)
    with phases.phase("move the log into its Delta table, delete the segments"):
        moved = move(log)
    with ExitStack() as stack:
        with phases.phase("start another broker"):
            address = stack.enter_context(running_broker(log, places))
        with phases.phase("rewind a Kafka consumer to offset 0"):
            rewound = rewind(address, ends)
    with phases.phase("ask DuckDB"):
        worst = worst_carriers(log)
    problems = [f"rewind: {fault}" for fault in faults(rewound.rows, read_ids(count))]
    return History(moved, len(rewound.rows), rewound.seconds, worst), problems


def check_kept(places: Places, phases: Phases) -> None:
    """Looks again at a demo that was kept. Raises `NotAllThere`."""
    count, log = places.read_facts()
    with ExitStack() as stack:
        spark = _start_spark(places, phases, stack)
        with phases.phase("look for every flight"):
            problems = find_problems(places, log, spark, count)
    _conclude(problems, phases, count)


def find_problems(places: Places, log: DemoLog, spark: SparkSession, count: int) -> list[str]:
    """Reads the log from its objects as a batch, and the table that the stream wrote."""
    expected = list(read_ids(count))
    in_log = rows_of(decoded(log_records(spark, log)))
    in_table = rows_of(spark.read.format("delta").load(str(places.table)))
    return [
        f"{where}: {fault}"
        for where, rows in (("log", in_log), ("table", in_table))
        for fault in faults(rows, expected)
    ]


def _start_spark(places: Places, phases: Phases, stack: ExitStack) -> SparkSession:
    if not has_fetched(IVY):
        phases.console.print("  Spark fetches Delta's jars (10 MB) first; the next run finds them")
    with phases.phase("start Spark"):
        return stack.enter_context(spark_session(IVY, places.spark_lines))


def _stream(
    places: Places,
    log: DemoLog,
    phases: Phases,
    spark: SparkSession,
    address: str,
    count: int,
    *,
    drop_one: bool,
) -> tuple[Produced, Sequence[HourOfCarrier]]:
    """Produce while two queries read; until both have read all there is."""
    leave_out = _one_of(count) if drop_one else None
    if leave_out is not None:
        phases.console.print(f"  as asked, not sent: {leave_out}")
    with running_queries(spark, log, places.table, places.checkpoints) as queries:
        with phases.counted("produce while two Spark streams read", count) as report:
            produced = produce(address, read_flights(count), leave_out, report)
        with phases.phase("let the streams catch up"):
            wait_for(queries, log_ends(log), CATCH_UP_TIMEOUT_S)
        hours = [HourOfCarrier(*row) for row in spark.table(DELAYS).collect()]
    return produced, hours


def _one_of(count: int) -> FlightId:
    return next(islice(read_ids(count), count // 2, None))


def _conclude(problems: Sequence[str], phases: Phases, count: int) -> None:
    if problems:
        raise NotAllThere("; ".join(problems))
    phases.console.print(
        f"\n[green]every one of {count:,} flights is there exactly once[/green], in the log and in "
        f"the Delta table, in the order it was sent in all {PARTITIONS} partitions"
    )
