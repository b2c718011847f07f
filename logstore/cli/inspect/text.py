"""Output of `logstore inspect` for people."""

from collections.abc import Sequence
from typing import Any

from logstore.cli.decisions.findings import Finding
from logstore.cli.inspect.chain_view import ChainLine, ChainView
from logstore.cli.inspect.checkpoint_view import CheckpointView
from logstore.cli.inspect.log_overview import LogOverview, TableLine
from logstore.cli.inspect.registry_view import RowLine
from logstore.cli.inspect.segment_view import SegmentView
from logstore.cli.inspect.topic_text import NONE, settings_text
from logstore.cli.output import (
    dollars_text,
    jsonable,
    print_facts,
    print_line,
    print_part,
    print_table,
    size_text,
    time_text,
)

CHAIN_COLUMNS = (
    "chain", "broker", "status", "trim", "checkpoint", "committed", "seal", "objects", "size",
    "batches", "records",
)  # fmt: skip


ENDS_SHOWN_MAX = 4


def print_overview(overview: LogOverview) -> None:
    print_facts(
        [
            ("cluster", overview.cluster_id.hex()),
            ("registry", overview.registry),
            ("format level", overview.format_level),
        ]
    )
    print_table(
        "brokers",
        ("broker", "epoch", "address", "rack"),
        [(b.broker, b.epoch, b.address, b.rack or NONE) for b in overview.brokers],
    )
    print_table(
        "topics",
        ("topic", "partitions", "status", "topic id", "settings"),
        [
            (t.name, t.partition_count, t.status, t.topic_id.hex(), settings_text(t.configs))
            for t in overview.topics
        ],
    )
    print_table(
        "partitions",
        ("topic", "partition", "leader", "leader epoch", "chain", "start", "end"),
        [
            (p.topic, p.partition, p.leader, p.leader_epoch, p.chain, p.start, _end(p))
            for p in overview.partitions
        ],
    )
    if overview.tables:
        print_table(
            "tables",
            ("topic", "version", "files", "size", "ends"),
            [
                (t.topic, t.version, t.files, size_text(t.size_bytes), _ends(t))
                for t in overview.tables
            ],
        )
    print_table("chains", CHAIN_COLUMNS, [_chain(line) for line in overview.chains])
    print_table(
        "stored",
        ("under", "objects", "size"),
        [(s.folder, s.objects, size_text(s.size_bytes)) for s in overview.stored],
    )
    cost = overview.cost
    print_part(
        f"on S3 this would cost {dollars_text(cost.storage_dollars_month)} a month to keep; "
        f"putting it cost {dollars_text(cost.put_dollars)} in requests"
    )
    _print_findings(overview.findings)


def print_chain(view: ChainView) -> None:
    print_table("chain", CHAIN_COLUMNS, [_chain(view.chain)])
    print_table(
        f"{len(view.segments)} segments",
        ("seq", "kind", "size", "created", "entries", "batches", "records", "committed"),
        [
            (
                s.seq,
                s.kind,
                size_text(s.size_bytes),
                time_text(s.created_ms),
                s.entries,
                s.batches,
                s.records,
                "yes" if s.is_committed else "no",
            )
            for s in view.segments
        ],
    )
    _print_findings(view.findings)


def print_segment(view: SegmentView) -> None:
    facts: list[tuple[str, object]] = [("key", view.key), ("size", f"{view.size_bytes} bytes")]
    header = view.header
    if header is not None:
        facts += [
            ("kind", header.kind.name.lower()),
            ("cluster", header.cluster_id.hex()),
            ("chain, seq", f"{header.epoch}, {header.seq}"),
            ("broker", header.broker),
            ("created", time_text(header.created_ms)),
            ("nonce", header.nonce.hex()),
            ("previous nonce", header.previous_nonce.hex()),
            ("index", f"{header.index_bytes} bytes, entries={header.entry_count}"),
            ("body", f"{header.body_bytes} bytes from byte {header.body_at} on"),
        ]
    print_facts(facts)
    print_table(
        "index",
        (
            "entry", "kind", "topic", "partition", "leader epoch", "base", "last", "records",
            "at", "length", "compression", "producer", "sequence", "flags", "max timestamp",
        ),
        [
            (
                e.number, e.kind, e.topic, e.partition, e.leader_epoch, e.base_offset,
                e.last_offset, e.records, e.at, e.length, e.compression or NONE,
                NONE if e.producer_id < 0 else f"{e.producer_id}/{e.producer_epoch}",
                NONE if e.base_sequence < 0 else e.base_sequence,
                ", ".join(e.flags) or NONE,
                time_text(e.max_timestamp) or NONE,
            )
            for e in view.entries
        ],
    )  # fmt: skip
    _print_findings(view.findings)


def print_checkpoint(view: CheckpointView) -> None:
    print_facts(
        [
            ("key", view.key),
            ("size", f"{view.size_bytes} bytes"),
            ("sums up", f"segments {view.from_seq} to {view.seq - 1} of chain {view.epoch}"),
            ("broker", view.broker),
            ("created", time_text(view.created_ms)),
            ("earlier", ", ".join(map(str, view.earlier)) or NONE),
        ]
    )
    print_table(
        "stretches",
        ("topic", "partition", "leader epoch", "start", "end", "released", "producers", "state"),
        [
            (
                s.topic, s.partition, s.leader_epoch, s.start, s.end,
                "yes" if s.is_released else "no", s.producers, size_text(s.state_bytes),
            )
            for s in view.stretches
        ],
    )  # fmt: skip
    print_table(
        "index pages",
        ("topic", "partition", "leader epoch", "first offset", "end offset", "rows", "at"),
        [
            (p.topic, p.partition, p.leader_epoch, p.first_offset, p.end_offset, p.rows, p.at)
            for p in view.pages
        ],
    )
    if view.deleted:
        print_table(
            "deleted records",
            ("topic", "partition", "below offset"),
            [(d.topic, d.partition, d.below) for d in view.deleted],
        )
    _print_findings(view.findings)


def print_registry(rows: Sequence[RowLine]) -> None:
    print_table(
        f"{len(rows)} rows",
        ("pk", "sk", "attributes", "fault"),
        [(r.pk, r.sk, settings_text(jsonable(r.attributes)), r.fault or NONE) for r in rows],
    )


def _chain(line: ChainLine) -> tuple[object, ...]:
    beyond = f" ({line.objects_beyond} beyond)" if line.objects_beyond else ""
    return (
        line.epoch,
        NONE if line.broker is None else line.broker,
        line.status,
        line.trim,
        line.checkpoint or NONE,
        line.committed_end,
        NONE if line.seal_found is None else line.seal_found,
        f"{line.objects}{beyond}",
        size_text(line.size_bytes),
        line.batches,
        line.records,
    )


def _ends(table: TableLine) -> str:
    """By partition; of many, the first few."""
    shown = [f"{number}: {end}" for number, end in sorted(table.ends.items())]
    more = len(shown) - ENDS_SHOWN_MAX
    some = ", ".join(shown[:ENDS_SHOWN_MAX])
    return f"{some}, and {more} more" if more > 0 else some or NONE


def _end(partition: Any) -> str:
    if partition.end is None:
        return "unknown"
    return str(partition.end) if partition.is_complete else f"at least {partition.end}"


def _print_findings(findings: Sequence[Finding]) -> None:
    if not findings:
        print_part("no damage found")
        return
    print_part(f"damage: {len(findings)} found")
    for finding in findings:
        print_line(f"  {finding}")
