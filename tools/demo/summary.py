"""What the run came to: rates, objects, cost, time, and what to try next."""

from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Console

from logstore.cli.log_survey import LogSurvey, survey_log
from logstore.cli.output import dollars_text, size_text
from logstore.objects.prices import Requests, cost_of
from logstore.open import open_readable
from tools.demo.places import Places
from tools.demo.produce import TOPIC, Produced

HOURS_PER_MONTH = 730


@dataclass(frozen=True, slots=True)
class Stored:
    """What the run left in the log; every object was put once."""

    segments: int
    objects: int
    size_bytes: int
    put_dollars: float
    storage_dollars_month: float


def stored(places: Places) -> Stored:
    log = open_readable(str(places.log))
    try:
        survey = survey_log(log)
    finally:
        log.close()
    return stored_of(survey)


def stored_of(survey: LogSurvey) -> Stored:
    return Stored(
        sum(chain.objects for chain in survey.chains),
        sum(line.objects for line in survey.stored),
        sum(line.size_bytes for line in survey.stored),
        survey.cost.put_dollars,
        survey.cost.storage_dollars_month,
    )


def print_summary(
    console: Console, produced: Produced, found: Stored, seconds: Mapping[str, float]
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
    longest = sorted(seconds.items(), key=lambda item: -item[1])
    times = "; ".join(f"{taken:.1f} s to {name}" for name, taken in longest)
    console.print(f"  time       {times}")


def print_next(console: Console, places: Places) -> None:
    console.print("\n[bold]what to try next[/bold]")
    if not places.is_kept:
        console.print("  make demo DIR=./demo      keeps everything, for the commands that follow")
    root = str(places.root) if places.is_kept else "./demo"
    log = f"{root}/log"
    for command, what in (
        (f".venv/bin/logstore inspect --url {log}", "what is in it"),
        (f".venv/bin/logstore inspect --url {log} topic {TOPIC} --records 2", "records"),
        (f".venv/bin/logstore serve --url {log}", "a broker on it, for any Kafka client"),
        (f".venv/bin/python -m tools.demo --check {root}", "look for every flight again"),
    ):
        console.print(f"  {command}  [dim]# {what}[/dim]", soft_wrap=True)
