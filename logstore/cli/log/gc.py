"""`logstore gc`: drop old records, trim chains, delete segments trimmed a grace ago, and what Spark
sinks staged and no leader needs. It asks no broker."""

import argparse
import dataclasses
import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from logstore.cli.command import FAILED, OK, Command, positive_number, whole_number
from logstore.cli.output import print_facts, print_json, print_line
from logstore.cli.storage_arguments import add_url, storage_of

if TYPE_CHECKING:
    from logstore.epoch.table_queries import TableQueries
    from logstore.protocol.deletion.retention_sweep import Swept
    from logstore.protocol.deletion.trimming import TrimPass
    from logstore.protocol.sinks.staging_sweep import SweptStaging
    from logstore.wiring.open import OpenLog

GRACE_MINUTES = 60


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    parser.add_argument(
        "--grace-minutes",
        type=whole_number,
        default=GRACE_MINUTES,
        metavar="N",
        help="time between publishing a trim point and deleting segments below it, for readers "
        f"that planned to read them (default {GRACE_MINUTES}; 0 only if nothing reads)",
    )
    for name in ("ms", "bytes"):
        parser.add_argument(
            f"--retention-{name}",
            type=positive_number,
            metavar="N",
            help=f"retention.{name} of topics that do not set it; without this option they keep "
            "everything, since brokers' retention is not stored in the log",
        )
    parser.add_argument(
        "--trust-table",
        metavar="TOPIC",
        action="append",
        default=[],
        help="trust this topic's table again after one of its commits was overwritten or undone: "
        "records that it lacks may then be lost for good",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    import asyncio

    return asyncio.run(_run(options))


async def _run(options: argparse.Namespace) -> int:
    from logstore.epoch.table_queries import ThreadedTableQueries
    from logstore.history.delta import Tables
    from logstore.ports.clock import SystemClock
    from logstore.wiring.open import open_existing

    storage = storage_of(options)
    log = await open_existing(
        options.url, clock=SystemClock(), rng=random.Random(), storage=storage
    )
    try:
        tables = ThreadedTableQueries(lambda: Tables(options.url, storage))
        for name in options.trust_table:
            await _trust(log, tables, name)
        grace_ms = options.grace_minutes * 60_000
        defaults = await _defaults(log, options)
        swept, done, troubles = await collect(log, tables, defaults, grace_ms=grace_ms)
        staging = await sweep_sinks(log, grace_ms=grace_ms)
    finally:
        await log.close()
    if options.json:
        print_json(
            {
                "raised": swept.raised,
                **_facts(done),
                "staging": dataclasses.asdict(staging),
                "troubles": troubles,
            }
        )
    else:
        _print(swept, done, troubles, options.grace_minutes)
        _print_staging(staging)
    return FAILED if troubles else OK


async def sweep_sinks(log: "OpenLog", *, grace_ms: int) -> "SweptStaging":
    """Delete what Spark sinks staged and no leader will copy any more."""
    from logstore.protocol.sinks.staging_sweep import sweep_staging

    return await log.runner.run(sweep_staging(log.identity.cluster_id, grace_ms))


async def collect(
    log: "OpenLog", tables: "TableQueries", defaults: Mapping[str, str], *, grace_ms: int
) -> tuple["Swept", "TrimPass", Sequence[str]]:
    """Raise log starts, then trim every chain once; the last of the three: what went wrong.

    `defaults` are configs of topics that say nothing themselves. Raises `Refused` where the
    registry is older than the log, and what stores and tables raise; nothing is deleted then.
    """
    swept = await _sweep(log, tables, defaults)
    done, troubles = await _trim(log, tables, grace_ms)
    return swept, done, [*swept.troubles, *troubles]


async def _defaults(log: "OpenLog", options: argparse.Namespace) -> dict[str, str]:
    """Defaults that brokers published, and the retention that was given."""
    from logstore.protocol.rows.metadata import read_topic_defaults

    published = await log.runner.run(read_topic_defaults())
    given = {
        "retention.ms": options.retention_ms,
        "retention.bytes": options.retention_bytes,
    }
    return {
        **published,
        **{name: str(value) for name, value in given.items() if value is not None},
    }


async def _trust(log: "OpenLog", tables: "TableQueries", name: str) -> None:
    from logstore.errors import Invalid
    from logstore.protocol.rows.metadata import read_topics
    from logstore.protocol.rows.verified_versions import change_marks, read_marks

    topic = (await log.runner.run(read_topics())).get(name)
    snapshot = None if topic is None else await tables.snapshot(topic.topic_id)
    if snapshot is None:
        raise Invalid(f"no such topic, or it has no table: topic={name}")
    marks = await log.runner.run(read_marks())
    await log.runner.run(change_marks(marks, {snapshot.topic_id: snapshot.version}))


async def _sweep(log: "OpenLog", tables: "TableQueries", defaults: Mapping[str, str]) -> "Swept":
    from logstore.protocol.deletion.retention_sweep import sweep, topics_to_sweep
    from logstore.protocol.rows.metadata import read_table_rows

    topics = await log.runner.run(topics_to_sweep(defaults))
    snapshots = {}
    for topic_id in await log.runner.run(read_table_rows()):
        snapshot = await tables.snapshot(topic_id) if topic_id in topics else None
        if snapshot is not None:
            snapshots[topic_id] = snapshot
    return await log.runner.run(sweep(topics, snapshots))


async def _trim(
    log: "OpenLog", tables: "TableQueries", grace_ms: int
) -> tuple["TrimPass", Sequence[str]]:
    from logstore.epoch.durable_table_ends import DurableTableEnds
    from logstore.protocol.deletion.trimming import Trimmer
    from logstore.protocol.rows.metadata import read_table_rows

    rows = await log.runner.run(read_table_rows())
    durable_ends = await DurableTableEnds(tables, grace_ms).look(log.runner, fresh=rows.keys())
    trimmer = Trimmer(log.identity.cluster_id, grace_ms=grace_ms)
    steps = trimmer.steps(durable_ends=durable_ends.ends, asked_ms=durable_ends.asked_ms)
    return await log.runner.run(steps), durable_ends.troubles


def _facts(done: "TrimPass") -> dict[str, object]:
    return {"published": done.published, "deleted": done.deleted, "waiting": done.waiting}


def _print(swept: "Swept", done: "TrimPass", troubles: Sequence[str], grace_minutes: int) -> None:
    published = ", ".join(f"{epoch} at {seq}" for epoch, seq in done.published.items())
    print_facts(
        [
            ("log starts raised", swept.raised),
            ("trimmed now", f"chain {published}" if published else "no chain"),
            ("objects deleted", sum(done.deleted.values())),
            (
                "waiting",
                f"{done.waiting} chains; run this again in {grace_minutes} minutes"
                if done.waiting
                else "no chain",
            ),
        ]
    )
    for trouble in troubles:
        print_line(f"trouble: {trouble}")


def _print_staging(staging: "SweptStaging") -> None:
    """Where sinks stage nothing there is nothing to say."""
    if not any(dataclasses.astuple(staging)):
        return
    print_facts(
        [
            ("staged objects deleted", staging.objects),
            ("old manifests deleted", staging.manifests),
            ("batches given up", staging.voided),
            ("batches with staged objects left", staging.waiting),
        ]
    )
    if staging.troubles:
        print_line(f"trouble: manifests that cannot be read: {staging.troubles}")


COMMAND = Command(
    "apply retention, and delete segments no longer needed, without a broker", configure, run
)
