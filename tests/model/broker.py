"""A broker: begins an epoch range, appends, puts, answers, releases, dies. Rules 1, 2, 5, 8 and 10.

As logstore.protocol.chain.pipeline, put and writer do it, and logstore.epoch.leader. The client is
one idempotent producer with as many batches under way as puts may be; it repeats what was not
answered. Meeting a seal is the same as dying here: both are "nothing more is frozen or answered".
"""

from collections.abc import Iterator

from tests.model.chain_view import chain_as_read, recovered
from tests.model.config import Bug, Config
from tests.model.registry import asked, successors
from tests.model.state import (
    DEAD,
    FREE,
    NOWHERE,
    OPENED,
    RESTORED,
    SEAL,
    SEGMENT,
    SETTLED,
    STARTED,
    UP,
    Batch,
    Broker,
    Chain,
    Move,
    Release,
    RowChange,
    Segment,
    State,
    Take,
    acknowledged,
    replaced,
    with_broker,
    with_chain,
)
from tests.model.takeover import settled


def moves(state: State, config: Config) -> Iterator[Move]:
    for number, broker in enumerate(state.brokers):
        if broker.life == UP:
            yield from _begins(state, number, broker, config)
            yield from _freezes(state, number, broker, config)
            yield from _freezes_release(state, number, broker, config)
            yield from _repeats(state, number, broker, config)
            yield from _learns(state, number, broker, config)
            yield from _asks_for_its_release(state, number, broker, config)
        may_matter = broker.leader_epoch or state.registry.row.chain == number or config.starts
        if config.crashes and OPENED <= broker.life <= UP and may_matter:
            dead = with_broker(state, number, Broker(DEAD))
            yield "broker dies, or finds the seal", (number,), dead
    for number, chain in enumerate(state.chains):
        yield from _put_lands(state, number, chain, config)


def _begins(state: State, number: int, broker: Broker, config: Config) -> Iterator[Move]:
    row = state.registry.row
    if row.chain != number or row.leader_epoch <= broker.leader_epoch:
        return
    what = recovered(state, row, config)
    if config.bug is Bug.LEFT_WITH_TWO_LEADERS and broker.asked:
        what = broker.asked
    begun = broker._replace(
        leader_epoch=row.leader_epoch,
        next_offset=row.start,
        state=what,
        recovered=what,
        is_taken=False,
        is_released=False,
        asked=(),
    )
    after = with_broker(state, number, begun)
    if after.phase == STARTED:
        after = after._replace(phase=SETTLED)
    yield "leader begins its stretch", (number, row.leader_epoch), answered(after, number, config)


def _freezes(state: State, number: int, broker: Broker, config: Config) -> Iterator[Move]:
    chain = state.chains[number]
    seq = len(chain.segments)
    if not _may_freeze(state, number, broker, config):
        return
    in_flight = seq - 1 - broker.known.bit_count()
    if config.bug is Bug.NEXT_SEQ_AT_RETRY and in_flight:
        yield (
            "broker puts the same at the next seq",
            (number, seq),
            _frozen(state, number, broker, chain.segments[-1]),
        )
    if broker.is_released:
        if config.bug is not Bug.RELEASE_TAKEN_BACK:
            return
        if state.registry.row.leader_epoch != broker.leader_epoch:
            return
    front: Segment = ()
    if not broker.is_taken and config.bug is not Bug.NO_TAKE_ENTRY:
        carried = broker.state
        if config.bug is Bug.STATE_NOT_CARRIED:
            carried = (NOWHERE,) * config.batches
        front = (Take(broker.leader_epoch, broker.next_offset, carried),)
    taken = broker._replace(is_taken=True)
    if front:
        yield "broker freezes a take entry", (number, seq), _frozen(state, number, taken, front)
    batch = _next_batch(state, broker, config)
    if batch:
        entry = Batch(broker.leader_epoch, batch, broker.next_offset)
        appended = taken._replace(
            next_offset=broker.next_offset + 1,
            state=replaced(broker.state, batch - 1, broker.next_offset),
        )
        after = _frozen(state, number, appended, (*front, entry))
        yield "broker freezes a batch", (number, seq, batch), answered(after, number, config)


def _freezes_release(state: State, number: int, broker: Broker, config: Config) -> Iterator[Move]:
    seq = len(state.chains[number].segments)
    if not _may_freeze(state, number, broker, config):
        return
    may_release = config.releases and broker.is_taken and not broker.is_released
    if may_release and state.registry.row.leader_epoch < config.leader_epochs:
        released = broker._replace(is_released=True)
        entries = (Release(broker.leader_epoch, broker.next_offset),)
        yield (
            "broker freezes a release entry",
            (number, seq),
            _frozen(state, number, released, entries),
        )


def _may_freeze(state: State, number: int, broker: Broker, config: Config) -> bool:
    """A slot in the window, one left for the seal, and an epoch range to write."""
    seq = len(state.chains[number].segments)
    in_flight = seq - 1 - broker.known.bit_count()
    fits = in_flight < config.puts_in_flight and seq <= config.slots - 2
    return fits and broker.leader_epoch > 0


def _next_batch(state: State, broker: Broker, config: Config) -> int:
    """The batch that the client sends and the dedupe state lets in, or 0 (chains.producers)."""
    known = [at + 1 for at, offset in enumerate(broker.state) if offset != NOWHERE]
    unanswered = state.acked.index(NOWHERE) + 1 if NOWHERE in state.acked else 0
    batch = known[-1] + 1 if known else unanswered
    if not unanswered or batch > min(config.batches, unanswered + config.puts_in_flight - 1):
        return 0
    return batch


def _frozen(state: State, number: int, broker: Broker, segment: Segment) -> State:
    """The segment has its bytes and its seq for good, and its put is on its way."""
    chain = state.chains[number]
    sent = chain._replace(
        segments=(*chain.segments, segment), puts=chain.puts | 1 << len(chain.segments)
    )
    return with_chain(with_broker(state, number, broker), number, sent)


def _put_lands(state: State, number: int, chain: Chain, config: Config) -> Iterator[Move]:
    """`If-None-Match: *`: only on a free seq. At any time: the put may be late, or a repeat."""
    for seq in range(1, len(chain.segments)):
        if not chain.puts >> seq & 1 or chain.slots[seq] != FREE:
            continue
        landed = chain._replace(
            slots=replaced(chain.slots, seq, SEGMENT), landed=chain.landed | 1 << seq
        )
        if not config.repeats:  # it is not put again: this seq is settled for ever
            landed = landed._replace(puts=chain.puts & ~(1 << seq), seals=chain.seals & ~(1 << seq))
        after = with_chain(state, number, landed)
        broker = state.brokers[number]
        if broker.life == UP and not config.late_answers:
            reported = broker._replace(known=broker.known | 1 << seq)
            after = answered(with_broker(after, number, reported), number, config)
        yield "segment is stored", (number, seq), settled(after, number, config)


def _learns(state: State, number: int, broker: Broker, config: Config) -> Iterator[Move]:
    """The answer, or a repeat that gets "already exists" and finds its own identity there."""
    chain = state.chains[number]
    for seq in range(1, len(chain.segments)):
        if broker.known >> seq & 1:
            continue
        is_mine = chain.slots[seq] == SEGMENT and config.late_answers
        if config.bug is Bug.SEAL_TAKEN_AS_STORED:
            is_mine = is_mine or chain.slots[seq] == SEAL
        if is_mine:
            reported = broker._replace(known=broker.known | 1 << seq)
            after = answered(with_broker(state, number, reported), number, config)
            yield "broker learns that a segment is stored", (number, seq), after


def answered(state: State, number: int, config: Config) -> State:
    """Answer what is committed as far as this leader knows."""
    broker = state.brokers[number]
    if broker.life != UP or not broker.leader_epoch or state.phase == RESTORED:
        return state
    end = _known_end(broker, config)
    committed = {
        entry.number
        for seq, segment in enumerate(state.chains[number].segments)
        if seq < end and (seq == 0 or broker.known >> seq & 1)
        for entry in segment
        if isinstance(entry, Batch) and entry.leader_epoch == broker.leader_epoch
    }
    for batch, offset in enumerate(broker.state, 1):
        if batch in committed:
            state = acknowledged(state, batch, offset)
    return state


def _repeats(state: State, number: int, broker: Broker, config: Config) -> Iterator[Move]:
    """The client repeats what it had no answer to: it gets what the first one got (rule 10).

    A step of its own: it may as well never come, and be left for a later leader to know of.
    """
    at_once = config.bug is Bug.REPEAT_ANSWERED_AT_ONCE
    for batch, offset in enumerate(broker.state if at_once else broker.recovered, 1):
        if offset != NOWHERE and state.acked[batch - 1] == NOWHERE:
            after = acknowledged(state, batch, offset)
            yield "client repeats a batch, it is answered", (number, batch), after


def _known_end(broker: Broker, config: Config) -> int:
    """First seq that this broker does not know stored."""
    if config.bug is Bug.ANSWER_OUT_OF_ORDER:
        return config.slots
    seq = 1
    while broker.known >> seq & 1:
        seq += 1
    return seq


def _asks_for_its_release(
    state: State, number: int, broker: Broker, config: Config
) -> Iterator[Move]:
    """Rule 5: once the release is committed, the row may change; to itself, to take it back."""
    row = state.registry.row
    if not broker.is_released or row.leader_epoch != broker.leader_epoch:
        return
    if row.leader_epoch >= config.leader_epochs:
        return
    is_committed = config.bug is Bug.RELEASE_NOT_COMMITTED
    if not is_committed:
        own = chain_as_read(state, number, config).get(broker.leader_epoch)
        at = [
            seq
            for seq, segment in enumerate(state.chains[number].segments)
            for entry in segment
            if isinstance(entry, Release) and entry.leader_epoch == broker.leader_epoch
        ]
        is_committed = own is not None and own.is_released and at[0] < _known_end(broker, config)
    if is_committed:
        for successor in successors(state, config):
            change = RowChange(
                broker.leader_epoch, number, successor, _released_at(state, number, broker)
            )
            after = asked(state, change, config)
            if after is not None:
                yield "released: row change is sent", (number, successor), after


def _released_at(state: State, number: int, broker: Broker) -> int:
    ends = [
        entry.end
        for segment in state.chains[number].segments
        for entry in segment
        if isinstance(entry, Release) and entry.leader_epoch == broker.leader_epoch
    ]
    return ends[0]
