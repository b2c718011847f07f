"""Digests of a column of keys are those of Python's BLAKE2s, with the native codec and without."""

from hashlib import blake2s

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.records import native
from logstore.records.digests import DIGEST_BYTES, digests_of

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


def _digest(key: bytes) -> bytes:
    return blake2s(key, digest_size=DIGEST_BYTES).digest()
