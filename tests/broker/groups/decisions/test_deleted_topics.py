"""Offsets go with the topic that they are of, and with no other life of its name."""

from hypothesis import given
from hypothesis import strategies as st

from broker.groups.decisions.deleted_topics import Deletions, suspects, voided
from broker.groups.decisions.offsets import OffsetCommit, commit
from logstore.wire.primitives import ZERO_UUID
from tests.broker.groups.played import GROUP, Play

OLD, NEW, OTHER = b"1" * 16, b"2" * 16, b"3" * 16


def put(play: Play, name: str, topic_id: bytes, partition: int = 0, keep_ms: int = -1) -> None:
    play.append(
        commit(GROUP, [OffsetCommit((name, partition), topic_id, 1, -1, "")], keep_ms, play.now)
    )


def left(play: Play, deletions: Deletions) -> set[tuple[str, int]]:
    places = list(play.group.offsets)
    play.append(voided(play.group, places, deletions))
    return set(play.group.offsets)


def test_offsets_of_the_deleted_life_go_and_those_of_the_next_stay() -> None:
    play = Play()
    put(play, "t", OLD, 0)
    put(play, "t", NEW, 1)
    put(play, "kept", OTHER)

    assert left(play, Deletions({OLD}, {"t": play.now.wall_ms})) == {("t", 1), ("kept", 0)}
    assert play.states.topic_offset_counts == {"t": 1, "kept": 1}


def test_an_offset_without_an_id_goes_if_it_is_older_than_the_deletion() -> None:
    play = Play()
    put(play, "t", ZERO_UUID, 0, keep_ms=1_000_000)
    seen_ms = play.now.wall_ms
    play.wait(1)
    put(play, "t", ZERO_UUID, 1, keep_ms=1_000_000)

    assert left(play, Deletions({OLD}, {})) == {("t", 0), ("t", 1)}, "whose they are is not known"
    assert left(play, Deletions({OLD}, {"t": seen_ms})) == {("t", 1)}


def test_only_topics_that_do_not_bear_their_name_now_are_suspected() -> None:
    play = Play()
    put(play, "served", NEW)
    put(play, "again", OLD)
    put(play, "unknown", OTHER)
    put(play, "old form", ZERO_UUID, keep_ms=1)
    served = {"served": NEW, "again": NEW}

    assert suspects(play.group, list(play.group.offsets), served.get) == {OLD, OTHER}


NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.tuples(NAMES, st.integers(0, 2), st.sampled_from([OLD, NEW, None])), max_size=30
)


@given(STEPS)
def test_offsets_are_counted_by_topic_whatever_happens(
    steps: list[tuple[str, int, bytes | None]],
) -> None:
    play = Play()
    for name, partition, topic_id in steps:
        if topic_id is None:
            left(play, Deletions({OLD}, {}))
        else:
            put(play, name, topic_id, partition)
    offsets = play.group.offsets
    counted = {name: sum(one == name for one, _ in offsets) for name, _ in offsets}

    assert play.states.topic_offset_counts == counted
