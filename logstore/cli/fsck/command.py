"""`logstore fsck`: do store, registry and chains agree? Reads only, also beside running brokers."""

import argparse
from typing import TYPE_CHECKING

from logstore.cli.command import FAILED, OK, Command
from logstore.cli.output import print_facts, print_json, print_line, print_part, progress
from logstore.cli.storage_arguments import add_url, storage_of

if TYPE_CHECKING:
    from logstore.cli.fsck.log import Verdict

SHOWN_MAX = 20
"""Problems of one kind that people are shown; `--json` has all."""


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    parser.add_argument(
        "--data",
        action="store_true",
        help="read every byte of every segment and of every file of a table and check it, not only "
        "headers, indexes and lists of files",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    from logstore.cli.fsck.log import check_log
    from logstore.cli.fsck.staging import look_at_staging
    from logstore.ports.clock import SystemClock
    from logstore.wiring.open import open_readable

    log = open_readable(options.url, storage_of(options))
    try:
        with progress("checking segments", None) as advance:
            verdict = check_log(log, advance, bodies=options.data)
        verdict.add_staging(look_at_staging(log, SystemClock(), bodies=options.data))
    finally:
        log.close()
    if options.json:
        print_json(_json(verdict))
    else:
        _print(verdict)
    return FAILED if verdict.problems else OK


def _json(verdict: "Verdict") -> object:
    from logstore.protocol.rules.checks import CURES

    return {
        "counts": verdict.counts,
        "problems": [
            {
                "what": problem.what.value,
                "where": problem.where,
                "detail": problem.detail,
                "repair": CURES[problem.what],
            }
            for problem in verdict.problems
        ],
    }


def _print(verdict: "Verdict") -> None:
    from logstore.cli.fsck.log import by_cause
    from logstore.protocol.rules.checks import CURES

    counts = verdict.counts
    print_facts(
        [
            ("chains", counts.chains),
            ("segments", counts.segments),
            ("checkpoints", counts.checkpoints),
            ("partitions", counts.partitions),
            ("below a trim point", f"{counts.below_trim} (to be deleted)"),
            ("beyond an end", f"{counts.beyond} (never acknowledged, never read)"),
            ("unused checkpoints", counts.unused_checkpoints),
            ("openings never used", counts.bare_openings),
            ("topic records", counts.records),
            ("changes of topics never made", counts.never_made),
            ("rows left half done", f"{counts.half_done} (to be cleared away)"),
            ("tables", f"{counts.tables} (files: {counts.table_files})"),
            (
                "key compactions checked",
                f"{counts.cleanings} (not any more: {counts.old_cleanings})",
            ),
            ("batches of sinks", f"{counts.manifests} (staged objects: {counts.staged})"),
            ("staged, in no batch", f"{counts.unnamed} (being written, or to be deleted)"),
        ]
    )
    for what, problems in by_cause(verdict.problems).items():
        print_part(f"{what.value}: {len(problems)}")
        for problem in problems[:SHOWN_MAX]:
            print_line(f"  {problem.where}: {problem.detail}")
        if len(problems) > SHOWN_MAX:
            print_line(f"  and {len(problems) - SHOWN_MAX} more; --json shows all")
        print_line(f"  repair: {CURES[what]}")
    for table, entries in counts.unsummed_entries.items():
        print_part(
            f"warning: {table}: {entries} entries since the last checkpoint of its log, which "
            "every reader of the table reads; see why checkpoints fail in the log of: "
            "logstore compact"
        )
    if not verdict.problems:
        print_part("nothing is wrong")


COMMAND = Command("check that store, registry and chains agree; change nothing", configure, run)
