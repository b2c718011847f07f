"""What one search is about: its bounds, which parts take part, which rule is broken."""

from dataclasses import dataclass, replace
from enum import Enum


class Bug(Enum):
    """A rule broken on purpose; the value says which and how."""

    STATE_NOT_CARRIED = "4: a take entry carries no state: lost at the second takeover"
    EMPTY_STRETCH_FORGETS = "4: state is sought in the stretch before alone, which may be empty"
    NO_TAKE_ENTRY = "4: a stretch begins without its take entry"
    REPLAY_BEFORE_SEAL = "4: the chain is read before the seal is placed"
    VOID_SEAL_BELIEVED = "4b: the trim point is not read again: a seal below it is believed"
    LEFT_WITH_TWO_LEADERS = "4d: a row that names me is taken for my own change's, at any epoch"
    NO_CONDITION = "4d: the row changes without any condition"
    NO_EPOCH_CONDITION = "4d: the row changes if the leader is still E, whatever the leader epoch"
    COPY_NOT_CHECKED = "4d: at a cold start no chain is compared with the row"
    COPY_CHECKED_CHAIN_BY_CHAIN = "4d: a cold start compares the chain that it takes over, no other"
    SEALED_UNCHECKED = "4d, e: at a cold start a chain's row is sealed without that comparison"
    OPENING_NOT_CHECKED = "3: an opening that is there is sealed and passed, segments or not"
    RAISED_BEFORE_CHAIN_ROW = "3: the next epoch's row is raised before the chain's row is there"
    COLD_START_TRUSTS_ROW = "3, 4: what a cold start reads begins at the row's checkpoint"
    RELEASE_NOT_COMMITTED = "5: the row changes before the release entry is committed"
    RELEASE_TAKEN_BACK = "5: the old leader goes on after its release, in the same leader epoch"
    ANSWER_OUT_OF_ORDER = "1: a batch is answered when its segment is stored, whatever is below"
    REPEAT_ANSWERED_AT_ONCE = "10: a repeat of what is in flight is answered before it is committed"
    SEAL_TAKEN_AS_STORED = "2: 412 means stored, whichever broker's object it is"
    NEXT_SEQ_AT_RETRY = "2: what has no answer is put again at the next seq"
    SEAL_DELETED = "6: a seal is deleted"
    ENTERED_AT_THE_FIRST_SEQ = "6: a chain is entered at seq 1 after it was trimmed"
    READER_BELIEVES_A_SEAL = "6: a reader takes any seal for the end of the stretch"
    CHECKPOINT_BEFORE_COMMIT = "7: a checkpoint sums up what is not committed"
    TRIMMED_ABOVE_CHECKPOINT = "7: the trim point passes the last durable checkpoint"
    TRIMMED_ABOVE_TABLE = "7: the trim point passes what the table holds"
    RELEASE_DROPPED = "7: checkpoint and release go before the next take entry is committed"
    ROW_FORGETS_TOO_MUCH = "3 (rows): stretches below table end leave the row, the taken one too"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Bounds and parts of one search. Chains are broker epochs; slots are seqs, seal included."""

    name: str
    chains: int = 3
    slots: int = 4
    batches: int = 2
    leader_epochs: int = 4
    puts_in_flight: int = 2
    row_changes_in_flight: int = 2
    crashes: bool = True
    late_answers: bool = False
    """Learning that a segment is stored is a step of its own; otherwise it comes with storing."""
    beyond_seals: bool = False
    """Segments are put beyond a seal, and brokers go on that have not found it; it is not read."""
    repeats: bool = False
    """A put that was stored may be stored again, late, when the segment has been deleted."""
    releases: bool = False
    trims: bool = False
    sweeps: bool = False
    """A chain's last checkpoint may be deleted, when rule 7 allows it."""
    reads: bool = False
    starts: bool = False
    """Brokers draw their epochs (rule 3); otherwise all chains are open from the beginning."""
    restores: bool = False
    """The registry may be set back, once, to a copy taken before; every broker is stopped then."""
    bug: Bug | None = None

    @property
    def keeps_what_is_beyond(self) -> bool:
        looks_beyond = self.bug in (Bug.SEAL_TAKEN_AS_STORED, Bug.SEAL_DELETED)
        return self.beyond_seals or self.late_answers or looks_beyond

    def with_bug(self, bug: Bug) -> "Config":
        return replace(self, bug=bug)
