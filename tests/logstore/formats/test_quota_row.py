"""Rows of client quotas: what is stored comes back, and each entity has one row."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Corrupt
from logstore.formats.quota_row import DEFAULT, QuotaEntity, QuotaRow

names = st.none() | st.text(max_size=20)
entities = st.builds(QuotaEntity, names, names, names).filter(any)
rates = st.dictionaries(st.text(max_size=10), st.floats(0, 1e15), min_size=1, max_size=3)


@given(st.integers(1, 2**60), st.dictionaries(entities, rates, max_size=5))
def test_a_row_comes_back(version: int, quotas: dict[QuotaEntity, dict[str, float]]) -> None:
    row = QuotaRow(version, quotas)

    assert QuotaRow.of(row.row()) == row


@given(entities)
def test_every_entity_has_one_row_of_sixteen(entity: QuotaEntity) -> None:
    assert entity.row in "0123456789abcdef"


def test_the_bytes_of_a_row() -> None:
    quotas = {
        QuotaEntity("alice/b", DEFAULT): {"request_percentage": 12.5, "producer_byte_rate": 1024.0},
        QuotaEntity(ip="2001:db8::1"): {"connection_creation_rate": 5.0},
    }

    assert QuotaRow(3, quotas).row() == {
        "version": 3,
        "quotas": '{"ip=2001%3Adb8%3A%3A1":{"connection_creation_rate":5.0},'
        '"user=alice%2Fb/client-id=":{"producer_byte_rate":1024.0,"request_percentage":12.5}}',
    }
    assert [entity.row for entity in quotas] == ["2", "1"]


@pytest.mark.parametrize("key", ["user", "user=a/user=b", "group=a", "user=a=b", ""])
def test_a_key_that_makes_no_sense_is_damage(key: str) -> None:
    with pytest.raises(Corrupt, match="quotas="):
        QuotaRow.of({"version": 1, "quotas": f'{{"{key}":{{"producer_byte_rate":1.0}}}}'})
