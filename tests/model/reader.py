"""A reader without a broker: follows epoch ranges by GET of the next seq. Rule 6.

It enters a chain at its trim point (a real one finds older batches by the last checkpoint), and
ends an epoch range only at the start of the next one, as the row says: never at a seal, never at a
404.
"""

from collections.abc import Iterator

from tests.model.config import Bug, Config
from tests.model.state import SEAL, SEGMENT, Batch, Move, Reader, State, observed


def moves(state: State, config: Config) -> Iterator[Move]:
    if not config.reads:
        return
    reader, row = state.reader, state.registry.row
    if reader.known < row.leader_epoch:
        known = reader._replace(known=row.leader_epoch)
        yield "reader reads the row", (row.leader_epoch,), state._replace(reader=known)
    if reader.leader_epoch < row.first:
        yield "reader resolves again", (), _resolved(state)
        return
    ends_at = _end_of_epoch_range(state)
    if ends_at is not None and reader.position >= ends_at:
        yield (
            "reader goes to the next stretch",
            (reader.leader_epoch + 1,),
            _next_epoch_range(state),
        )
    elif reader.seq < config.slots:
        yield from _gets(state, config)


def _end_of_epoch_range(state: State) -> int | None:
    reader, row = state.reader, state.registry.row
    if reader.known <= reader.leader_epoch:
        return None
    return row.at(reader.leader_epoch + 1)[1]


def _gets(state: State, config: Config) -> Iterator[Move]:
    reader = state.reader
    number = state.registry.row.at(reader.leader_epoch)[0]
    held = state.chains[number].slots[reader.seq]
    if held == SEGMENT:
        yield "reader gets a segment", (number, reader.seq), _read(state, number)
    elif held == SEAL and config.bug is Bug.READER_BELIEVES_A_SEAL:
        ends_at = _end_of_epoch_range(state)
        if ends_at is not None:
            after = _next_epoch_range(state)
            skipped = ends_at > after.reader.position
            yield (
                "reader takes a seal for the end",
                (number, reader.seq),
                after._replace(wrong="a reader skips what is committed" if skipped else ""),
            )
    elif reader.seq < state.registry.chains[number].trim:
        yield (
            "reader meets a 404 or a void seal, resolves again",
            (number, reader.seq),
            _resolved(state),
        )


def _read(state: State, number: int) -> State:
    reader = state.reader
    ends_at, position = _end_of_epoch_range(state), reader.position
    for entry in state.chains[number].segments[reader.seq]:
        if not isinstance(entry, Batch) or entry.leader_epoch != reader.leader_epoch:
            continue
        if entry.offset < position or (ends_at is not None and entry.offset >= ends_at):
            continue
        if entry.offset > position:
            return state._replace(wrong="a reader skips what is committed")
        state = observed(state, position, entry.number)
        position += 1
    return state._replace(reader=reader._replace(position=position, seq=reader.seq + 1))


def _next_epoch_range(state: State) -> State:
    reader = state.reader
    return _entered(state, reader.position, reader.leader_epoch + 1, reader.known)


def _resolved(state: State) -> State:
    """Rows, then table: what lies below table end is read there."""
    reader, row = state.reader, state.registry.row
    position = max(reader.position, state.table_end)
    epoch = max(reader.leader_epoch, row.first)
    while epoch < row.leader_epoch and row.at(epoch + 1)[1] <= position:
        epoch += 1
    return _entered(state, position, epoch, row.leader_epoch)


def _entered(state: State, position: int, epoch: int, known: int) -> State:
    number = state.registry.row.at(epoch)[0]
    seq = max(state.registry.chains[number].trim, 1)
    if seq > 1:
        position = max(position, min(state.table_end, _trimmed_to(state, number, seq)))
    return state._replace(reader=Reader(position, epoch, seq, known))


def _trimmed_to(state: State, number: int, seq: int) -> int:
    """First offset not in the segments below the trim point: until there the table is read."""
    return max(
        (
            entry.offset + 1
            for segment in state.chains[number].segments[:seq]
            for entry in segment
            if isinstance(entry, Batch)
        ),
        default=0,
    )
