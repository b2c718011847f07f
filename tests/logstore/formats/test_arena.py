"""Memory of segments: what was frozen keeps its bytes, however long a reader looks at it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from logstore.formats.segment_builder import Arena, ArenaPool, SegmentBuilder
from tests.golden.samples import CLUSTER_ID, nonce


def freeze(builder: SegmentBuilder, seq: int) -> memoryview:
    return builder.freeze(
        cluster_id=CLUSTER_ID,
        epoch=1,
        seq=seq,
        broker=1,
        nonce=nonce(seq),
        previous_nonce=nonce(seq - 1),
    ).body


@given(
    st.lists(st.tuples(st.integers(1, 400), st.booleans()), max_size=60),
    st.lists(st.integers(0, 59), max_size=30),
)
@settings(max_examples=60)
def test_a_frozen_body_never_changes_while_it_is_held(
    steps: list[tuple[int, bool]], dropped: list[int]
) -> None:
    pool = ArenaPool(1_000, held_max=4)
    arena = pool.take(0)
    held: dict[int, tuple[memoryview, bytes]] = {}
    for seq, (length, drop) in enumerate(steps):
        if arena.free_bytes < length:
            pool.give_back(arena)
            arena = pool.take(length)
        builder = SegmentBuilder(arena, 0)
        written = bytes([seq % 251]) * length
        builder.add_bytes(written)
        held[seq] = (freeze(builder, seq), written)
        if drop and dropped:
            held.pop(dropped[seq % len(dropped)], None)
        assert all(bytes(body) == data for body, data in held.values())


def test_an_arena_is_used_again_once_nothing_refers_to_it() -> None:
    pool = ArenaPool(1_000)
    first = pool.take(0)
    view = first.take(0, 10)
    pool.give_back(first)
    assert pool.take(0) is not first
    del view
    assert pool.take(0) is first


def test_what_a_burst_took_goes_back_to_the_system() -> None:
    """Sixty slow consumers once held a gigabyte, which stayed when they were gone."""
    pool = ArenaPool(1_000)
    views = []
    for _ in range(60):
        arena = pool.take(0)
        views.append(arena.take(0, 10))
        pool.give_back(arena)
    assert len(pool._retired) == 60
    views.clear()
    first = pool.take(0)

    assert len(pool._retired) == ArenaPool.SPARE_MAX
    assert first.free_bytes == 1_000


def test_arenas_that_no_take_has_needed_for_long_go_back_too() -> None:
    pool = ArenaPool(1_000)
    for arena in [pool.take(0) for _ in range(3)]:
        pool.give_back(arena)
    for _ in range(ArenaPool.TAKES_LOOKED_AT - 1):
        pool.give_back(pool.take(0))
        assert len(pool._retired) == 3
    pool.give_back(pool.take(0))

    assert len(pool._retired) == 1


def test_arenas_that_are_needed_now_and_then_stay() -> None:
    pool = ArenaPool(1_000)
    for _ in range(3 * ArenaPool.TAKES_LOOKED_AT):
        arenas = [pool.take(0) for _ in range(3)]
        for arena in arenas:
            pool.give_back(arena)
        assert len(pool._retired) == 3


def test_a_view_held_for_long_does_not_keep_others_from_being_used_again() -> None:
    pool = ArenaPool(1_000)
    arenas = [pool.take(0) for _ in range(3)]
    held = arenas[0].take(0, 10)
    for arena in arenas:
        pool.give_back(arena)

    assert pool.take(0) is arenas[1]
    assert pool.take(0) is arenas[2]
    assert len(held) == 10


def test_more_than_an_arena_holds_gets_one_of_its_own() -> None:
    pool = ArenaPool(1_000)
    large = pool.take(5_000)

    assert large.free_bytes == 5_000
    pool.give_back(large)
    assert pool.take(0).free_bytes == 1_000


def test_segments_of_one_arena_do_not_overlap() -> None:
    arena = Arena(100)
    first = SegmentBuilder(arena, 0)
    first.add_bytes(b"first")
    one = freeze(first, 1)
    second = SegmentBuilder(arena, 0)
    second.add_bytes(b"second")
    other = freeze(second, 2)

    assert (bytes(one), bytes(other)) == (b"first", b"second")
    assert arena.free_bytes == 100 - len(b"firstsecond")
