"""`logstore upgrade`: versions and format levels of a log; lets it write the next level."""

import argparse
import random
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from logstore.cli.command import FAILED, OK, Command, whole_number
from logstore.cli.output import print_facts, print_json, print_line, print_table
from logstore.cli.storage_arguments import add_url, storage_of

if TYPE_CHECKING:
    from logstore.protocol.leading.upgrade import Hindrance, UpgradeView


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    parser.add_argument(
        "--finalize",
        action="store_true",
        help="let the cluster write the newest format level of this version. Before, every broker "
        "may go back to the release before; afterwards that one refuses to start",
    )
    parser.add_argument(
        "--pass-over",
        type=whole_number,
        action="append",
        default=[],
        metavar="BROKER",
        help="do not wait for this broker, which has stopped or was fenced: started again with an "
        "older version, it is refused (may be repeated)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    import asyncio

    from logstore.formats.levels import NEWEST_LEVEL
    from logstore.protocol.leading.upgrade import find_hindrances

    view = asyncio.run(_view(options))
    found = find_hindrances(view, NEWEST_LEVEL, options.pass_over)
    if options.json:
        _print_json(view, found)
    else:
        _print(view, found)
    # After a raise: a broker that read the level just before it, and cannot read the new one.
    is_late = view.cluster.format_level >= NEWEST_LEVEL and bool(found)
    return FAILED if options.finalize and is_late else OK


async def _view(options: argparse.Namespace) -> "UpgradeView":
    from logstore.ports.clock import SystemClock
    from logstore.protocol.leading.upgrade import finalize, read_view
    from logstore.wiring.open import open_existing

    log = await open_existing(
        options.url, clock=SystemClock(), rng=random.Random(), storage=storage_of(options)
    )
    passed_over: Collection[int] = options.pass_over
    cluster_id = log.identity.cluster_id
    try:
        steps = finalize(cluster_id, passed_over) if options.finalize else read_view(cluster_id)
        return await log.runner.run(steps)
    finally:
        await log.close()


def _print_json(view: "UpgradeView", found: "Sequence[Hindrance]") -> None:
    from logstore.formats.levels import BRINGS, NEWEST_LEVEL

    level = view.cluster.format_level
    print_json(
        {
            "finalized_level": level,
            "newest_level": NEWEST_LEVEL,
            "brings": {number: BRINGS[number] for number in range(level + 1, NEWEST_LEVEL + 1)},
            "brokers": {
                broker: {
                    "status": row.status,
                    "version": row.version,
                    "level_min": row.level_min,
                    "level_max": row.level_max,
                }
                for broker, row in sorted(view.brokers.items())
            },
            "hindrances": found,
        }
    )


def _print(view: "UpgradeView", found: "Sequence[Hindrance]") -> None:
    from logstore.formats.levels import BRINGS, NEWEST_LEVEL
    from logstore.version import VERSION

    level = view.cluster.format_level
    facts: list[tuple[str, object]] = [
        ("finalized format level", level),
        (f"newest of this version ({VERSION})", NEWEST_LEVEL),
    ]
    for number in range(level + 1, NEWEST_LEVEL + 1):
        facts.append((f"level {number} brings", BRINGS[number]))
    print_facts(facts)
    print_table(
        "brokers",
        ("broker", "status", "version", "reads levels"),
        [
            (
                broker,
                row.status.value,
                row.version or "0.1.0 or older",
                f"{row.level_min} to {row.level_max}",
            )
            for broker, row in sorted(view.brokers.items())
        ],
    )
    print_line()
    for one in found:
        print_line(f"{one.why}; do: {one.cure}")
    if level >= NEWEST_LEVEL:
        print_line(f"level {level} is finalized: a broker that cannot read it refuses to start")
    elif found:
        print_line(f"level {NEWEST_LEVEL} cannot be finalized yet; until then brokers may go back")
    else:
        print_line(
            f"level {NEWEST_LEVEL} may be finalized, once Spark jobs and compaction are of this "
            "version too: logstore upgrade --finalize"
        )


COMMAND = Command("say versions and format levels, finalize the next level", configure, run)
