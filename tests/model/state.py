"""One moment of the modelled world: a partition, its chains, the registry, brokers, a reader.

Everything is a tuple, so that a state is its own key. Sets of seqs are bit masks.

    store      Chain.slots           what is stored at each seq now
    network    Chain.puts, .seals    seqs at which a put of a segment, of a seal may land yet
               State.changes         changes of the partition's row that may be applied yet
    registry   Registry              partition row, chain rows, next broker epoch
    processes  Broker, Reader        takers, trimmers and the table's writers have no memory here:
                                     any number of them act, on anything they may have read
    witnesses  State.acked, .seen    what clients were promised, what anybody outside has read
"""

from typing import NamedTuple

from tests.model.config import Config

FREE, OPENING, SEGMENT, SEAL = range(4)
"""What a slot holds."""

ABSENT, OPEN, FENCED, SEALED = range(4)
"""Status of a chain's row."""

NOT_BEGUN, OPENED, HALF, UP, DEAD = range(5)
"""A broker's life: not started; opening stored; one row written; both rows written; gone."""

NORMAL, RESTORED, STARTED, SETTLED, STOPPED = range(5)
"""The cluster: before a restore; set back; a broker is up; its row changed; refused to go on."""

NOWHERE = -1

Offsets = tuple[int, ...]
"""Offset of each batch of the one producer, by batch number - 1, or NOWHERE: its dedupe state."""


class Take(NamedTuple):
    leader_epoch: int
    start: int
    state: Offsets


class Batch(NamedTuple):
    leader_epoch: int
    number: int
    offset: int


class Release(NamedTuple):
    leader_epoch: int
    end: int


Segment = tuple[Take | Batch | Release, ...]


class Chain(NamedTuple):
    """`segments` are frozen, seq 0 the opening; those `landed` were stored at some time."""

    slots: tuple[int, ...]
    segments: tuple[Segment, ...]
    landed: int = 0
    puts: int = 0
    seals: int = 0
    checkpoint: int = 0
    """The newest checkpoint object; the row may know an older one, or none."""
    is_swept: bool = False


class ChainRow(NamedTuple):
    status: int
    trim: int = 0
    checkpoint: int = 0


class PartitionRow(NamedTuple):
    """`epoch_ranges` are (chain, start) of leader epochs `first`, `first` + 1 …; the last leads."""

    first: int
    epoch_ranges: tuple[tuple[int, int], ...]

    @property
    def leader_epoch(self) -> int:
        return self.first + len(self.epoch_ranges) - 1

    @property
    def chain(self) -> int:
        return self.epoch_ranges[-1][0]

    @property
    def start(self) -> int:
        return self.epoch_ranges[-1][1]

    def at(self, leader_epoch: int) -> tuple[int, int]:
        return self.epoch_ranges[leader_epoch - self.first]


class RowChange(NamedTuple):
    """`update_if(leader is `old` and leader epoch is `leader_epoch`)` → `new`, from `start`."""

    leader_epoch: int
    old: int
    new: int
    start: int


class Registry(NamedTuple):
    next_epoch: int
    row: PartitionRow
    chains: tuple[ChainRow, ...]


class Broker(NamedTuple):
    """`known` are the seqs it knows stored; `state` includes what is in flight."""

    life: int
    leader_epoch: int = 0
    next_offset: int = 0
    state: Offsets = ()
    recovered: Offsets = ()
    is_taken: bool = False
    is_released: bool = False
    known: int = 0
    asked: Offsets = ()
    """Only with LEFT_WITH_TWO_LEADERS: the state it read when it asked for the row change."""


class Reader(NamedTuple):
    """Next: `position`, in epoch range `leader_epoch`, at `seq`; has read the row at `known`."""

    position: int
    leader_epoch: int
    seq: int
    known: int


class State(NamedTuple):
    registry: Registry
    chains: tuple[Chain, ...]
    brokers: tuple[Broker, ...]
    changes: tuple[RowChange, ...]
    acked: Offsets
    seen: tuple[int, ...]
    """Batch number at each offset as any client outside was answered; 0 where none was."""
    table_end: int
    reader: Reader
    copy: Registry | None
    phase: int
    wrong: str = ""


Move = tuple[str, tuple[int, ...], State]
"""What happens, its figures, and the world after it."""


def initial(config: Config) -> State:
    """Chain 0 leads as leader epoch 1 from offset 0; nothing is written."""
    opened = 1 if config.starts else config.chains
    numbers = range(config.chains)
    rest = (FREE,) * (config.slots - 1)
    return State(
        registry=Registry(
            next_epoch=opened,
            row=PartitionRow(1, ((0, 0),)),
            chains=tuple(ChainRow(OPEN if n < opened else ABSENT) for n in numbers),
        ),
        chains=tuple(Chain((OPENING if n < opened else FREE, *rest), ((),)) for n in numbers),
        brokers=tuple(Broker(UP if n < opened else NOT_BEGUN) for n in numbers),
        changes=(),
        acked=(NOWHERE,) * config.batches,
        seen=(0,) * (config.batches + 2),
        table_end=0,
        reader=Reader(0, 1, 1, 1),
        copy=None,
        phase=NORMAL,
    )


def replaced(items: tuple, number: int, item: object) -> tuple:  # type: ignore[type-arg]
    return (*items[:number], item, *items[number + 1 :])


def with_chain(state: State, number: int, chain: Chain) -> State:
    return state._replace(chains=replaced(state.chains, number, chain))


def with_broker(state: State, number: int, broker: Broker) -> State:
    return state._replace(brokers=replaced(state.brokers, number, broker))


def with_chain_row(state: State, number: int, row: ChainRow) -> State:
    registry = state.registry
    return state._replace(registry=registry._replace(chains=replaced(registry.chains, number, row)))


def observed(state: State, offset: int, number: int) -> State:
    """A client outside was answered, or has read, that batch `number` is at `offset`."""
    if offset >= len(state.seen):
        return state._replace(wrong="a batch lies beyond every offset that can be")
    before = state.seen[offset]
    if before == number:
        return state
    if before:
        return state._replace(wrong="two batches at one offset")
    if number in state.seen:
        return state._replace(wrong="a batch twice")
    return state._replace(seen=replaced(state.seen, offset, number))


def acknowledged(state: State, number: int, offset: int) -> State:
    """The client was answered that its batch `number` is at `offset`."""
    before = state.acked[number - 1]
    if before == offset:
        return state
    if before != NOWHERE:
        return state._replace(wrong="a batch is answered with another offset than before")
    return observed(state._replace(acked=replaced(state.acked, number - 1, offset)), offset, number)
