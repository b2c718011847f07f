"""A name is served as one life of a topic, whatever happens to brokers and to their registry.

Clients use topics by name; administrators delete them and make them again at any broker
(`tests.simulation.names`, what is claimed: `tests.simulation.name_ledger`). Worlds of their own:
those of other tests are not changed by it.
"""

from collections import Counter

import pytest

from tests.simulation.names import play_names
from tests.simulation.replay import digest_elsewhere

MUST_BE_SEEN = (
    "names created again",
    "names deleted",
    "names in doubt",
    "names found",
    "names read whole",
    "names grown",
    "acknowledged by name",
    "fetched by name",
    "committed by name",
    "offsets fetched by name",
    "batches given up",
    "produce: UNKNOWN_TOPIC_OR_PARTITION",
    "produce: NOT_LEADER_OR_FOLLOWER",
    "fetch: UNKNOWN_TOPIC_OR_PARTITION",
    "offset commit: UNKNOWN_TOPIC_OR_PARTITION",
    "create topics: TOPIC_ALREADY_EXISTS",
    "create topics: REQUEST_TIMED_OUT",
    "delete topics: REQUEST_TIMED_OUT",
    "delete topics: UNKNOWN_TOPIC_ID",
    "feeds read for another broker",
    "kill",
    "pause and twin",
    "cut off from the registry",
    "registry late",
    "registry loses answers",
    "row slow",
    "late row landed",
    "clocks differ",
)

SHOW_MOST = (4, 30, 28)
"""Seeds that show all of it between them."""


@pytest.mark.slow
@pytest.mark.seeds(5)
def test_a_name_is_served_as_one_life(seed: int) -> None:
    world = play_names(seed)
    assert not world.violations, f"play it again: python -m tests.simulation.replay --names {seed}"


@pytest.mark.slow
@pytest.mark.seeds(6, daily=True)
def test_also_by_seeds_that_no_run_has_played(seed: int) -> None:
    world = play_names(seed)
    assert not world.violations, f"play it again: python -m tests.simulation.replay --names {seed}"


@pytest.mark.slow
def test_the_seeds_see_everything_that_matters() -> None:
    seen: Counter[str] = Counter()
    for seed in dict.fromkeys((*SHOW_MOST, *range(40))):
        world = play_names(seed)
        assert not world.violations, seed
        seen.update(world.seen)
        if all(seen[what] for what in MUST_BE_SEEN):
            break
    assert not [what for what in MUST_BE_SEEN if not seen[what]]


@pytest.mark.slow
def test_a_number_plays_the_same_in_another_process() -> None:
    assert digest_elsewhere("--names", 4) == play_names(4).digest
