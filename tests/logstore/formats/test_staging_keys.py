"""Keys of staged objects: what a key names is what made it."""

from uuid import UUID

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


def test_the_hashes_of_sinks_are_stored_and_stay_as_they_are() -> None:
    assert sink_hash("orders-sink").hex() == "f317c2af5e8818d961f2a846365c1a32"
    assert sink_hash("orders-sink", "0b1c").hex() == "1a69464b5014d03352f5a3ddec5bb5ba"


@given(st.text(), st.text(), st.uuids(), st.uuids())
def test_another_query_or_another_name_is_another_sink(a: str, b: str, p: UUID, q: UUID) -> None:
    named = {(name, query): sink_hash(name, str(query)) for name in (a, b) for query in (p, q)}
    assert len(set(named.values())) == len(named)
    assert not {sink_hash(name) for name in (a, b, str(p), f"{p}/{a}")} & set(named.values())


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
