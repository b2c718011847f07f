"""`logstore restore`: rebuild a registry that was lost or is older than the log."""

import argparse
import random
from typing import TYPE_CHECKING

from logstore.cli.command import OK, Command, whole_number
from logstore.cli.output import print_facts, print_json, print_line, print_part, progress
from logstore.cli.storage_arguments import add_url, storage_of
from logstore.errors import Invalid

if TYPE_CHECKING:
    from logstore.restore.decisions.plan import LeftOut
    from logstore.restore.run import Restored


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print the rows that would be written, change nothing",
    )
    parser.add_argument(
        "--topic",
        type=topic_name,
        action="append",
        default=[],
        dest="names",
        metavar="ID=NAME",
        help="name of a topic whose row is lost; default: its own, or restored-ID; may be repeated",
    )
    parser.add_argument(
        "--leave-out",
        type=whole_number,
        action="append",
        default=[],
        metavar="CHAIN",
        help="if two chains hold the same leader epoch or offsets, ignore this one: its records "
        "are lost to readers; may be repeated",
    )
    parser.add_argument(
        "--holes-deleted",
        action="store_true",
        help="offsets missing between two leader epochs of a partition were deleted by retention "
        "or by a client: set log start above them",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def topic_name(text: str) -> tuple[bytes, str]:
    """`ID=NAME`, the id as 32 hexadecimal digits."""
    from logstore.protocol.topics.life import check_topic_name

    digits, _, name = text.partition("=")
    try:
        topic_id = bytes.fromhex(digits)
        check_topic_name(name)
    except (ValueError, Invalid) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not ID=NAME: {error}") from error
    if len(topic_id) != 16:
        raise argparse.ArgumentTypeError(f"{digits!r} is not an id of 32 hexadecimal digits")
    return topic_id, name


def run(options: argparse.Namespace) -> int:
    import asyncio

    done = asyncio.run(_run(options))
    if options.json:
        print_json({"dry_run": options.dry_run, **_fields(done)})
    else:
        _print(done, dry_run=options.dry_run)
    return OK


async def _run(options: argparse.Namespace) -> "Restored":
    from logstore.epoch.table_queries import ThreadedTableQueries
    from logstore.history.delta import Tables
    from logstore.ports.clock import SystemClock
    from logstore.restore.run import restore
    from logstore.restore.taking_back import ThreadedTrash
    from logstore.stores.backends import Backends
    from logstore.stores.location import parse_location
    from logstore.wiring.open import open_existing

    storage = storage_of(options)
    log = await open_existing(
        options.url,
        clock=SystemClock(),
        rng=random.Random(),
        storage=storage,
        lost_registry="imagine" if options.dry_run else "create",
    )
    backends = Backends(parse_location(options.url), storage)
    objects = backends.blocking_store()
    trash = backends.trash(objects)
    try:
        with progress("reading chains", None) as advance:
            return await restore(
                log.runner,
                log.identity.cluster_id,
                ThreadedTableQueries(lambda: Tables(options.url, storage)),
                dry_run=options.dry_run,
                advance=advance,
                names=dict(options.names),
                chains_left_out=options.leave_out,
                holes_deleted=options.holes_deleted,
                trash=None if trash is None else ThreadedTrash(trash),
            )
    finally:
        await log.close()
        objects.close()


def _fields(done: "Restored") -> dict[str, object]:
    return {
        "chains": done.chains,
        "sealed": done.sealed,
        "rows": done.rows,
        "removed": done.removed,
        "records": done.records,
        "lost_topics": done.lost_topics,
        "left_out": [_shown(one) for one in done.left_out],
        "taken_back": done.taken_back,
    }


def _print(done: "Restored", *, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    if dry_run:
        for place, row in done.rows.items():
            facts = " ".join(f"{name}={value!s}" for name, value in row.items())
            print_line(f"{place}: {facts}")
    print_facts(
        [
            ("chains", done.chains),
            (f"{would}sealed", len(done.sealed)),
            (f"rows {would}written", len(done.rows)),
            (f"rows {would}removed", len(done.removed)),
            (f"topic records {would}written", len(done.records)),
            ("deleted objects taken back", len(done.taken_back)),
        ]
    )
    for name, partitions in done.lost_topics.items():
        print_part(
            f"a topic whose name is lost {would}called {name} ({partitions} partitions); "
            "delete it if it had been deleted"
        )
    for one in done.left_out:
        print_part(f"{would}left out, as it contradicts others: {_shown(one)}")
        if one.in_table is not None:
            print_line(
                "the topic's table holds offsets of it, and all readers take them from there; "
                "if the rows are of this chain, put the table back from a copy before restore runs"
            )
    if not dry_run:
        print_part("done: start the brokers")


def _shown(one: "LeftOut") -> str:
    shown = (
        f"topic={one.topic_id.hex()} partition={one.partition} leader_epoch={one.leader_epoch} "
        f"chain={one.chain} offsets=[{one.start}, {one.end})"
    )
    held = one.in_table
    return shown if held is None else f"{shown} in_table=[{held[0]}, {held[1]})"


COMMAND = Command("rebuild a registry that was lost or is older than the log", configure, run)
