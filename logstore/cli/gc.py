"""`logstore gc`: trim every chain and delete what was trimmed a grace ago, without a broker."""

import argparse
import random

from logstore.cli.command import OK, Command, positive_number
from logstore.cli.output import print_facts, print_json
from logstore.cli.storage_arguments import add_url, storage_of

GRACE_MINUTES = 60


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    parser.add_argument(
        "--grace-minutes",
        type=positive_number,
        default=GRACE_MINUTES,
        metavar="N",
        help="time between saying that segments may go and deleting them, for readers that are "
        f"about to read them (default {GRACE_MINUTES})",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    import asyncio

    return asyncio.run(_run(options))


async def _run(options: argparse.Namespace) -> int:
    from logstore.clock import SystemClock
    from logstore.open import open_existing
    from logstore.trimming import Trimmer

    log = await open_existing(
        options.url, clock=SystemClock(), chance=random.Random(), storage=storage_of(options)
    )
    try:
        trimmer = Trimmer(log.identity.cluster_id, grace_ms=options.grace_minutes * 60_000)
        done = await trimmer.trim_once(log.performer)
    finally:
        await log.close()
    if options.json:
        print_json(done)
        return OK
    published = ", ".join(f"{epoch} at {seq}" for epoch, seq in done.published.items())
    print_facts(
        [
            ("trimmed now", f"chain {published}" if published else "no chain"),
            ("objects deleted", sum(done.deleted.values())),
            (
                "waiting",
                f"{done.waiting} chains; run this again in {options.grace_minutes} minutes"
                if done.waiting
                else "no chain",
            ),
        ]
    )
    return OK


COMMAND = Command("delete segments that nothing needs any more, without a broker", configure, run)
