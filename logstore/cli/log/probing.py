"""Output of a probe, for `logstore init` and `logstore probe`."""

import argparse
import random
from collections.abc import Mapping, Sequence
from typing import Any

from logstore.cli.output import print_table
from logstore.cli.storage_arguments import storage_of
from logstore.errors import Invalid
from logstore.ports.clock import SystemClock, blocking_sleep_s
from logstore.probe import Report
from logstore.wiring.initialise import InitPorts, check_arguments


def ports() -> InitPorts:
    from logstore.cli.main import installed_version

    return InitPorts(SystemClock(), random.Random(), blocking_sleep_s, installed_version())


def checked_storage(options: argparse.Namespace, registry: str | None) -> dict[str, str]:
    """The `storage.*` settings, after all checks that need only the arguments."""
    try:
        storage = storage_of(options)
        check_arguments(options.url, registry, storage)
    except Invalid as error:
        options.fail(str(error))
        raise AssertionError("argparse has ended the process") from error
    return storage


def report_json(report: Report) -> dict[str, Any]:
    return {
        "accepted": report.is_accepted,
        "racers": report.racers,
        "races": [
            {
                "what": tally.what,
                "rounds": tally.rounds,
                "judged": tally.judged,
                "winners": tally.winners,
            }
            for tally in report.races
        ],
        "faults": report.faults,
    }


def deleted_text(url: str, keeps_deleted: bool | None) -> str:
    """Whether `logstore restore` can take back objects deleted by mistake."""
    if keeps_deleted is None:
        return "unknown: allow this identity s3:GetBucketVersioning"
    if not keeps_deleted:
        return (
            "lost for good: the bucket has no versions; turn on versioning to be able to "
            "restore them"
        )
    if url.startswith("s3"):
        return "kept as noncurrent versions, until a lifecycle rule removes them"
    return "kept for a day, in .trash"


def print_report(report: Report) -> None:
    rows: Sequence[Sequence[object]] = [
        (tally.what, tally.rounds, tally.judged, _winners(tally.winners)) for tally in report.races
    ]
    print_table(
        f"probe: {report.racers} racers at a time",
        ("race", "rounds", "judged", "winners"),
        rows,
    )


def _winners(rounds_by_count: Mapping[int, int]) -> str:
    """Such as "1 in 18 rounds, 2 in 2 rounds": anything but one is one too many."""
    return ", ".join(f"{count} in {rounds} rounds" for count, rounds in rounds_by_count.items())
