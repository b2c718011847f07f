"""Frames come out as they went in, however the bytes arrive, and memory is bounded before it."""

import resource
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.network.buffers import (
    COPIED_BYTES_MAX,
    FIRST_BYTES,
    SCRATCH_BYTES,
    SMALL_FRAME_BYTES,
    BadFrame,
    BufferPool,
    Inbox,
)

PRODUCE = bytes(2)
FETCH = b"\x00\x01"
MiB = 1024 * 1024


def inbox(pool: BufferPool | None = None, changes: list[int] | None = None) -> Inbox:
    return Inbox(
        pool or BufferPool(),
        produce_bytes_max=100 * MiB,
        frame_bytes_max=MiB,
        changed=([] if changes is None else changes).append,
    )


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def feed(box: Inbox, data: bytes) -> list[bytes]:
    """Receive `data` as a socket would, and take every frame that became whole."""
    frames = []
    while data:
        room = box.buffer()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        data = data[count:]
        box.received(count)
        while (frame := box.next()) is not None:
            frames.append(bytes(frame))
    return frames


sizes = st.one_of(
    st.integers(0, 200),
    st.sampled_from([SMALL_FRAME_BYTES - 1, SMALL_FRAME_BYTES, SMALL_FRAME_BYTES + 1]),
    st.integers(SCRATCH_BYTES - 10, SCRATCH_BYTES + 10),
)


@given(st.lists(sizes, max_size=8), st.lists(st.integers(1, 100_000), max_size=20))
def test_any_split_of_a_stream_gives_the_same_frames(lengths: list[int], cuts: list[int]) -> None:
    bodies = [(PRODUCE + bytes([i]) * length)[:length] for i, length in enumerate(lengths)]
    stream = b"".join(map(framed, bodies))
    box, frames = inbox(), []
    for cut in cuts:
        frames += feed(box, stream[:cut])
        stream = stream[cut:]
    frames += feed(box, stream)

    assert frames == bodies
    assert box.is_empty


def test_a_frame_that_was_put_back_comes_again() -> None:
    for size in (10, SMALL_FRAME_BYTES + 1):
        box, body = inbox(), bytes(size)
        stream = framed(body)
        room = box.buffer()
        room[: len(stream[:100])] = stream[:100]
        box.received(len(stream[:100]))
        frame = box.next()
        rest = stream[100:]
        while frame is None:
            room = box.buffer()
            count = min(len(room), len(rest))
            room[:count], rest = rest[:count], rest[count:]
            box.received(count)
            frame = box.next()
        box.put_back(frame)
        assert not box.is_empty

        again = box.next()

        assert again is not None and bytes(again) == body
        assert box.next() is None


@pytest.mark.parametrize("size", [-1, -(2**31), 100 * MiB + 1, 2**31 - 1])
def test_a_size_out_of_range_is_refused_by_its_four_bytes(size: int) -> None:
    with pytest.raises(BadFrame, match=f"size={size}"):
        feed(inbox(), size.to_bytes(4, "big", signed=True))


def test_only_produce_may_be_larger_than_other_requests() -> None:
    size = (MiB + 1).to_bytes(4, "big")

    with pytest.raises(BadFrame, match="api_key=1"):
        feed(inbox(), size + FETCH)
    assert feed(inbox(), size + PRODUCE) == []


def test_a_large_size_costs_no_memory_before_bytes_come() -> None:
    pool, box = BufferPool(), inbox()
    box = inbox(pool)
    feed(box, (100 * MiB).to_bytes(4, "big") + PRODUCE)

    assert len(box.buffer()) <= FIRST_BYTES
    box.close()
    assert pool.kept_bytes <= FIRST_BYTES + SCRATCH_BYTES


def test_a_large_frame_grows_as_it_arrives_and_gives_back_what_it_used() -> None:
    changes: list[int] = []
    box = inbox(changes=changes)
    body = bytes(range(256)) * (5 * 4096)

    assert feed(box, framed(PRODUCE + body)) == [PRODUCE + body]
    assert len(body) <= max(accumulate(changes)) <= len(body) + len(body) // 4
    assert len(changes) > 3
    assert box.next() is None
    assert sum(changes) == 0


def test_an_unfinished_frame_holds_little_more_than_it_may_come_to() -> None:
    changes: list[int] = []
    box = inbox(changes=changes)
    sent = bytes(8 * MiB + 20)

    feed(box, (8 * MiB + 60).to_bytes(4, "big") + PRODUCE + sent)

    assert 8 * MiB <= sum(changes) == box.unfinished_bytes <= 10 * MiB
    box.close()
    assert sum(changes) == 0


def test_part_of_a_frame_holds_no_scratch_buffer() -> None:
    pool, body = BufferPool(), bytes(40_000)
    box = inbox(pool)

    frames = feed(box, framed(body) + framed(body)[:30_000])
    box.rest()
    assert pool.kept_bytes == SCRATCH_BYTES
    assert not box.is_empty
    frames += feed(box, framed(body)[30_000:])

    assert frames == [body, body]


def test_an_idle_connection_holds_no_buffer() -> None:
    pool = BufferPool()
    box = inbox(pool)
    box.buffer()
    assert feed(box, framed(b"abc")) == [b"abc"]

    assert pool.kept_bytes == SCRATCH_BYTES


def test_a_pool_keeps_no_more_than_it_may() -> None:
    pool = BufferPool(kept_bytes_max=SCRATCH_BYTES)
    first, second = pool.take(SCRATCH_BYTES), pool.take(SCRATCH_BYTES)
    pool.give_back(first)
    pool.give_back(second)

    assert pool.kept_bytes == SCRATCH_BYTES
    assert pool.take(SCRATCH_BYTES - 5) is first


def test_a_large_frame_takes_memory_as_its_bytes_arrive() -> None:
    pool = BufferPool()
    box = inbox(pool)
    before = resident_bytes()
    feed(box, (100 * MiB).to_bytes(4, "big") + PRODUCE)
    for _ in range(10 * 16):
        feed(box, bytes(MiB // 16))
    assert resident_bytes() - before < 32 * MiB
    for _ in range(40 * 16):
        feed(box, bytes(MiB // 16))
    assert resident_bytes() - before >= 50 * MiB
    box.close()
    assert resident_bytes() - before < 32 * MiB


@pytest.mark.slow
def test_bytes_of_a_large_frame_are_copied_while_they_are_few() -> None:
    body, chunk = PRODUCE + bytes(50 * MiB), 64 * 1024
    stream = memoryview(framed(body))
    box, frames, copied = inbox(), list[bytes](), list[int]()
    where: object = None
    for at in range(0, len(stream), chunk):
        if (now := box.buffer().obj) is not where:
            copied.append(box.arrived_bytes)
            where = now
        frames += feed(box, bytes(stream[at : at + chunk]))

    assert frames == [body]
    assert max(copied) <= COPIED_BYTES_MAX
    assert len(copied) > 3


def test_the_memory_of_a_frame_that_was_mapped_is_not_used_for_another() -> None:
    """A peer that sends a little of a frame as large would hold all of it."""
    pool = BufferPool()
    box = inbox(pool)

    for size in (COPIED_BYTES_MAX + 1, 40 * MiB):
        assert len(feed(box, framed(PRODUCE + bytes(size)))) == 1
        box.rest()

    assert pool.kept_bytes <= 2 * COPIED_BYTES_MAX


def resident_bytes() -> int:
    """Of this process, now."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize()


def test_without_a_login_a_frame_is_small_until_the_limit_is_lifted() -> None:
    box = inbox()
    box.limit(produce_bytes_max=1024, frame_bytes_max=1024)
    assert feed(box, framed(FETCH + bytes(1022))) == [FETCH + bytes(1022)]
    for key in (PRODUCE, FETCH):
        other = inbox()
        other.limit(produce_bytes_max=1024, frame_bytes_max=1024)
        with pytest.raises(BadFrame, match="frame size=1025 max=1024"):
            feed(other, framed(key + bytes(1023)))
    box.limit(produce_bytes_max=100 * MiB, frame_bytes_max=MiB)
    assert feed(box, framed(FETCH + bytes(100_000))) == [FETCH + bytes(100_000)]
