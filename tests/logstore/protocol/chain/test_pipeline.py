"""Safety rule 1: commits are the contiguous prefix below the fence, whatever ends in what order."""

from hypothesis import given
from hypothesis import strategies as st

from logstore.formats.segment_builder import FrozenSegment
from logstore.protocol.chain.flush import FlushSettings
from logstore.protocol.chain.pipeline import Pipeline, Window

FIRST_SEQ = 1


def segment(seq: int, size: int = 10) -> FrozenSegment:
    return FrozenSegment(seq, bytes(16), 0, bytes(size), memoryview(b""), 0)


@given(st.data(), st.integers(1, 30), st.integers(1, 8), st.booleans())
def test_commits_are_the_prefix_below_the_fence(
    data: st.DataObject, count: int, by_size: int, is_fenced: bool
) -> None:
    fence = data.draw(st.integers(0, count - 1)) + FIRST_SEQ if is_fenced else None
    pipeline = Pipeline(FIRST_SEQ, Window(by_interval=2, by_size=by_size))
    for seq in range(FIRST_SEQ, FIRST_SEQ + count):
        pipeline.freeze(segment(seq))
    in_flight: list[int] = []
    stored: set[int] = set()
    committed: list[int] = []
    while True:
        while (started := pipeline.start()) is not None:
            in_flight.append(started.seq)
        assert len(in_flight) <= by_size
        if not in_flight:
            break
        seq = in_flight.pop(data.draw(st.integers(0, len(in_flight) - 1)))
        # A seal at the fence: that put and those above it may end either way.
        if fence is not None and seq >= fence and (seq == fence or data.draw(st.booleans())):
            pipeline.fence(seq)
        else:
            stored.add(seq)
            committed += [one.seq for one in pipeline.store(seq)]
        prefix = FIRST_SEQ
        while prefix in stored and (fence is None or prefix < fence):
            prefix += 1
        assert committed == list(range(FIRST_SEQ, prefix))
        assert pipeline.committed_end == prefix

    end = FIRST_SEQ + count if fence is None else fence
    assert committed == list(range(FIRST_SEQ, end))
    assert pipeline.is_finished == is_fenced
    assert pipeline.is_idle == (end == FIRST_SEQ + count)
    assert pipeline.backlog_bytes == 10 * (FIRST_SEQ + count - end)


def test_as_many_puts_leave_at_once_as_the_backlog_holds_full_segments() -> None:
    mib = 1 << 20
    for backlog, puts in ((1, 8), (64, 8), (128, 16), (255, 31), (1024, 32)):
        settings = FlushSettings(segment_bytes_max=8 * mib, backlog_bytes_max=backlog * mib)
        assert Window.of(settings).by_size == puts


def test_nothing_starts_after_a_fence() -> None:
    pipeline = Pipeline(1, Window(by_size=1))
    pipeline.freeze(segment(1))
    pipeline.freeze(segment(2))
    assert pipeline.start() is not None
    pipeline.fence(1)

    assert pipeline.start() is None


def test_what_is_below_a_fence_is_still_committed() -> None:
    pipeline = Pipeline(1, Window())
    for seq in (1, 2, 3):
        pipeline.freeze(segment(seq))
        pipeline.start()
    pipeline.fence(3)
    assert not pipeline.is_finished
    assert pipeline.store(2) == []
    assert [one.seq for one in pipeline.store(1)] == [1, 2]
    assert pipeline.is_finished


def test_a_fence_only_goes_down() -> None:
    pipeline = Pipeline(1, Window())
    for seq in (1, 2, 3):
        pipeline.freeze(segment(seq))
        pipeline.start()
    pipeline.fence(2)
    pipeline.fence(3)

    assert pipeline.fenced_at == 2


def test_the_interval_drives_fewer_puts_at_once_than_the_size() -> None:
    pipeline = Pipeline(1, Window(by_interval=2, by_size=8))
    assert pipeline.has_slot(by_size=False)
    for seq in (1, 2):
        pipeline.freeze(segment(seq))
        pipeline.start()

    assert not pipeline.has_slot(by_size=False)
    assert pipeline.has_slot(by_size=True)
