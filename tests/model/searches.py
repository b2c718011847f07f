"""The searches that are run: one of seconds, those of every full run, the large ones."""

from tests.model.config import Config

FAST = Config(name="two takeovers", chains=3, slots=3, leader_epochs=3)

NORMAL = (
    Config(name="takeovers", chains=3, slots=4, leader_epochs=3),
    Config(name="takeovers in a row", chains=4, slots=3, leader_epochs=4),
    Config(name="late answers", chains=3, slots=3, leader_epochs=3, late_answers=True),
    Config(name="releases", chains=2, slots=5, leader_epochs=3, releases=True),
    Config(name="releases to two", chains=3, slots=4, batches=1, leader_epochs=3, releases=True),
    Config(name="trims", chains=2, slots=4, leader_epochs=2, trims=True),
    Config(
        name="trims and reads",
        chains=2,
        slots=4,
        batches=1,
        leader_epochs=2,
        trims=True,
        reads=True,
    ),
    Config(
        name="releases and reads",
        chains=2,
        slots=5,
        batches=1,
        leader_epochs=3,
        releases=True,
        reads=True,
    ),
    Config(name="starts", chains=3, slots=4, batches=1, leader_epochs=2, starts=True),
    Config(
        name="restores",
        chains=3,
        slots=3,
        batches=1,
        leader_epochs=2,
        puts_in_flight=1,
        crashes=False,
        starts=True,
        restores=True,
    ),
    Config(
        name="restores, chain by chain",
        chains=3,
        slots=3,
        batches=1,
        leader_epochs=3,
        puts_in_flight=1,
        crashes=False,
        starts=True,
        restores=True,
        checks_chain_by_chain=True,
    ),
)

LARGE = (
    Config(name="takeovers, four chains", chains=4, slots=4, leader_epochs=4),
    Config(name="three batches", chains=3, slots=5, batches=3, leader_epochs=3),
    Config(name="beyond seals", chains=3, slots=4, leader_epochs=3, beyond_seals=True),
    Config(name="reads", chains=3, slots=4, leader_epochs=3, reads=True),
    Config(
        name="trims and reads, two batches",
        chains=2,
        slots=4,
        leader_epochs=2,
        trims=True,
        reads=True,
    ),
    Config(name="trims and repeats", chains=2, slots=4, leader_epochs=2, trims=True, repeats=True),
    Config(
        name="restores with crashes",
        chains=3,
        slots=3,
        batches=1,
        leader_epochs=3,
        starts=True,
        restores=True,
    ),
)
