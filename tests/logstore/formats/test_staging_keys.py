"""Keys of staged objects: what a key names is what made it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.formats.staging_keys import BATCH_MAX, SinkBatch, StagedName, place_of, sink_hash
from logstore.objects.keys import is_key

batches = st.builds(SinkBatch, st.builds(sink_hash, st.text()), st.integers(0, BATCH_MAX))
names = st.builds(StagedName, *[st.integers(0, 2**32 - 1)] * 3)


@given(batches, names)
def test_a_key_names_what_made_it(batch: SinkBatch, name: StagedName) -> None:
    assert place_of(name.key(batch)) == (batch, name)
    assert place_of(batch.manifest_key) == (batch, None)
    assert is_key(name.key(batch)) and name.key(batch).startswith(batch.prefix)


@pytest.mark.parametrize(
    "key",
    [
        "staging/",
        "staging/ab/00000000000000000001/manifest",
        f"staging/{'ab' * 16}/1/manifest",
        f"staging/{'AB' * 16}/{'0' * 20}/manifest",
        f"staging/{'ab' * 16}/{'9' * 20}/manifest",
        f"staging/{'ab' * 16}/{'0' * 20}/1-2",
        f"staging/{'ab' * 16}/{'0' * 20}/1-2-03",
        f"chains/{'ab' * 16}/{'0' * 20}/1-2-3",
    ],
)
def test_any_other_key_names_nothing(key: str) -> None:
    assert place_of(key) is None


@given(st.text(max_size=60))
def test_no_text_breaks_it(text: str) -> None:
    place_of(text)
    place_of("staging/" + text)
