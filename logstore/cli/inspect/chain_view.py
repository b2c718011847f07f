"""One chain on its own: `logstore inspect chain`, and its line in the overview of a whole log."""

from collections.abc import Sequence
from dataclasses import dataclass

from logstore.cli.decisions.findings import Finding
from logstore.cli.inspect.chain_overview import ChainOverview, SegmentLine, read_chain_overview
from logstore.cli.output import progress
from logstore.errors import NotFound
from logstore.formats.chain_row import CHAIN, ChainRow, chain_sk
from logstore.formats.keys import chain_prefix
from logstore.protocol.steps import GetRow, Steps
from logstore.wiring.open import ReadableLog

NO_ROW = "no row"


@dataclass(frozen=True, slots=True)
class ChainLine:
    """`status` is the row's; `committed_end`, `seal_found` and the counts come from objects."""

    epoch: int
    broker: int | None
    status: str
    trim: int
    checkpoint: int
    seal: int | None
    committed_end: int
    seal_found: int | None
    objects: int
    objects_beyond: int
    size_bytes: int
    batches: int
    records: int


@dataclass(frozen=True, slots=True)
class ChainView:
    chain: ChainLine
    segments: Sequence[SegmentLine]
    findings: Sequence[Finding]


def view_chain(log: ReadableLog, epoch: int) -> ChainView:
    """Raises `NotFound` for a chain that has neither a row nor an object."""
    row = log.runner.run(_row(epoch))
    objects = {
        place[1]: info
        for info in log.runner.store.list(chain_prefix(epoch))
        if (place := parsed_key(info.key)) is not None
    }
    if row is None and not objects:
        raise NotFound(f"no such chain: epoch={epoch}; see the chains there are with: inspect")
    with progress("reading segments", len(objects)) as advance:
        overview = read_chain_overview(log, epoch, row, objects, advance)
    return ChainView(chain_line(overview), overview.lines, overview.findings)


def _row(epoch: int) -> Steps[ChainRow | None]:
    row = yield GetRow(CHAIN, chain_sk(epoch))
    return None if row is None else ChainRow.of(row)


def chain_line(overview: ChainOverview) -> ChainLine:
    row = overview.row
    return ChainLine(
        overview.epoch,
        None if row is None else row.broker,
        NO_ROW if row is None else row.status.value,
        0 if row is None else row.trim,
        0 if row is None else row.checkpoint,
        None if row is None or row.seal < 0 else row.seal,
        overview.committed_end,
        overview.seal,
        overview.objects,
        overview.objects_beyond,
        overview.size_bytes,
        sum(line.batches for line in overview.lines if line.is_committed),
        sum(line.records for line in overview.lines if line.is_committed),
    )


def parsed_key(key: str) -> tuple[int, int] | None:
    """Epoch and seq, the last two components of the key of a segment or checkpoint."""
    epoch, _, seq = key.rpartition("/")
    epoch = epoch.rpartition("/")[2]
    if epoch.isascii() and epoch.isdigit() and seq.isascii() and seq.isdigit():
        return int(epoch), int(seq)
    return None
