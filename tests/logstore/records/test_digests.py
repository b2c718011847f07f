"""Digests of a column of keys are those of Python's BLAKE2s, with the native codec and without."""

from hashlib import blake2s

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.records import native
from logstore.records.digests import DIGEST_BYTES, digests_of, last_rows

ENDS_OF_BLOCKS = [0, 1, 3, 63, 64, 65, 127, 128, 129, 1_000, 1 << 20]


@pytest.mark.parametrize("native_", [True, False], ids=["native", "pure"])
@given(
    keys=st.lists(st.binary(max_size=200), max_size=20),
    start=st.integers(0, 20),
    count=st.integers(0, 20),
)
def test_a_column_of_keys_is_digested_as_each_key(
    native_: bool, keys: list[bytes], start: int, count: int
) -> None:
    some = pa.array(keys, pa.binary()).slice(start, count)
    with pytest.MonkeyPatch.context() as patch:
        if not native_:
            patch.setattr(native, "codec", None)
        found = digests_of(some)

    assert found.type == pa.binary(DIGEST_BYTES)
    assert found.to_pylist() == [_digest(key) for key in some.to_pylist()]


def test_keys_that_end_where_a_block_ends() -> None:
    keys = [bytes(at % 251 for at in range(size)) for size in ENDS_OF_BLOCKS]

    assert digests_of(pa.array(keys, pa.binary())).to_pylist() == [_digest(key) for key in keys]


@pytest.mark.parametrize("native_", [True, False], ids=["native", "pure"])
@given(
    rows=st.lists(st.tuples(st.integers(0, 9), st.integers(-9, 9)), max_size=40),
    start=st.integers(0, 40),
    count=st.integers(0, 40),
)
def test_the_last_rows_are_those_with_the_greatest_offset_of_their_digest(
    native_: bool, rows: list[tuple[int, int]], start: int, count: int
) -> None:
    digests = pa.array([_digest(b"%d" % key) for key, _ in rows], pa.binary(DIGEST_BYTES))
    offsets = pa.array([offset for _, offset in rows], pa.int64())
    some = rows[start : start + count]
    with pytest.MonkeyPatch.context() as patch:
        if not native_:
            patch.setattr(native, "codec", None)
        found = last_rows(digests.slice(start, count), offsets.slice(start, count))

    assert found.to_pylist() == [
        offset == max(other for key_, other in some if key_ == key) for key, offset in some
    ]


def test_digests_that_share_their_first_half_are_two() -> None:
    digests = pa.array([bytes(8) + _digest(b"%d" % n)[8:] for n in range(500)], pa.binary(16))
    offsets = pa.array(range(500), pa.int64())

    assert last_rows(digests, offsets).true_count == 500
    twice = pa.concat_arrays([digests, digests])
    later = pa.array([*range(500), *range(900, 1400)], pa.int64())
    assert last_rows(twice, later).to_pylist() == [False] * 500 + [True] * 500


def test_columns_of_different_lengths_are_refused() -> None:
    assert native.codec is not None
    for digests, offsets in ((15, 8), (16, 7), (16, 16), (0, 8)):
        with pytest.raises(ValueError, match="odd"):
            native.codec.last_rows(bytes(digests), bytes(offsets))


def _digest(key: bytes) -> bytes:
    return blake2s(key, digest_size=DIGEST_BYTES).digest()
