"""Which search finds which planted bug."""

from tests.model.config import Bug, Config

_PLAIN = Config(name="takeovers", chains=3, slots=4, batches=2, leader_epochs=3)
_IN_A_ROW = Config(name="takeovers in a row", chains=4, slots=3, batches=2, leader_epochs=4)
_RELEASES = Config(name="releases", chains=2, slots=5, batches=2, leader_epochs=3, releases=True)
_RELEASES_3 = Config(name="releases", chains=3, slots=4, batches=1, leader_epochs=3, releases=True)
_TRIMS = Config(name="trims", chains=2, slots=4, batches=2, leader_epochs=2, trims=True)
_TRIMS_3 = Config(name="trims", chains=3, slots=4, batches=2, leader_epochs=3, trims=True)
_SWEEPS = Config(
    name="sweeps", chains=3, slots=3, batches=1, leader_epochs=3, trims=True, sweeps=True
)
_READS = Config(name="reads", chains=2, slots=4, batches=2, leader_epochs=2, trims=True, reads=True)
_RESTORES = Config(
    name="restores",
    chains=3,
    slots=3,
    batches=1,
    leader_epochs=3,
    puts_in_flight=1,
    starts=True,
    restores=True,
)
_TRIMMED_RESTORES = Config(
    name="restores after trimming",
    chains=2,
    slots=4,
    batches=1,
    leader_epochs=3,
    puts_in_flight=1,
    starts=True,
    restores=True,
    trims=True,
)

FOUND_BY = {
    Bug.STATE_NOT_CARRIED: _PLAIN,
    Bug.EMPTY_STRETCH_FORGETS: _PLAIN,
    Bug.NO_TAKE_ENTRY: _PLAIN,
    Bug.REPLAY_BEFORE_SEAL: _PLAIN,
    Bug.VOID_SEAL_BELIEVED: _TRIMS,
    Bug.LEFT_WITH_TWO_LEADERS: _PLAIN,
    Bug.NO_CONDITION: _PLAIN,
    Bug.NO_EPOCH_CONDITION: _RELEASES,
    Bug.COPY_NOT_CHECKED: _RESTORES,
    Bug.COPY_CHECKED_CHAIN_BY_CHAIN: _RESTORES,
    Bug.SEALED_UNCHECKED: _RESTORES,
    Bug.OPENING_NOT_CHECKED: _RESTORES,
    Bug.RAISED_BEFORE_CHAIN_ROW: _RESTORES,
    Bug.COLD_START_TRUSTS_ROW: _TRIMMED_RESTORES,
    Bug.RELEASE_NOT_COMMITTED: _RELEASES_3,
    Bug.RELEASE_TAKEN_BACK: _RELEASES,
    Bug.ANSWER_OUT_OF_ORDER: _PLAIN,
    Bug.REPEAT_ANSWERED_AT_ONCE: _PLAIN,
    Bug.SEAL_TAKEN_AS_STORED: _PLAIN,
    Bug.NEXT_SEQ_AT_RETRY: _PLAIN,
    Bug.SEAL_DELETED: _TRIMS,
    Bug.ENTERED_AT_THE_FIRST_SEQ: _TRIMS,
    Bug.READER_BELIEVES_A_SEAL: _READS,
    Bug.CHECKPOINT_BEFORE_COMMIT: _TRIMS,
    Bug.TRIMMED_ABOVE_CHECKPOINT: _TRIMS,
    Bug.TRIMMED_ABOVE_TABLE: _TRIMS,
    Bug.RELEASE_DROPPED: _SWEEPS,
    Bug.ROW_FORGETS_TOO_MUCH: _TRIMS_3,
}

SLOW = {bug for bug, config in FOUND_BY.items() if config.restores}
"""Found only after many states."""
