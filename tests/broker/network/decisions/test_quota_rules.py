"""Kafka's order of precedence: which quota a client has, and who shares it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.network.decisions.quota_rules import CLIENT_KINDS, Limit, QuotaKind, QuotaRules
from logstore.formats.quota_row import DEFAULT, QuotaEntity, Quotas

BYTES = QuotaKind.PRODUCE
ORDER = [  # the entity, and what of (user, client id) its rate is shared by
    (QuotaEntity("alice", "app"), ("alice", "app")),
    (QuotaEntity("alice", DEFAULT), ("alice", "app")),
    (QuotaEntity("alice"), ("alice", None)),
    (QuotaEntity(DEFAULT, "app"), ("alice", "app")),
    (QuotaEntity(DEFAULT, DEFAULT), ("alice", "app")),
    (QuotaEntity(DEFAULT), ("alice", None)),
    (QuotaEntity(client_id="app"), (None, "app")),
    (QuotaEntity(client_id=DEFAULT), (None, "app")),
]
STRANGE = [
    QuotaEntity("bob", "app"),
    QuotaEntity("bob"),
    QuotaEntity("bob", DEFAULT),
    QuotaEntity("alice", "other"),
    QuotaEntity(client_id="other"),
    QuotaEntity(ip="10.0.0.1"),
    QuotaEntity(ip=DEFAULT),
]


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_more_special_quota_prevails(first: int) -> None:
    there: Quotas = {entity: {BYTES: float(n)} for n, (entity, _) in enumerate(ORDER) if n >= first}

    assert QuotaRules(there).limit_of(BYTES, "alice", "app") == Limit(first, *ORDER[first][1])


@given(st.sets(st.integers(0, len(ORDER) - 1)), st.sets(st.sampled_from(STRANGE)))
def test_quotas_of_others_change_nothing(numbers: set[int], strange: set[QuotaEntity]) -> None:
    quotas: Quotas = {
        **{ORDER[n][0]: {BYTES: float(n)} for n in numbers},
        **{entity: {BYTES: 1000.0} for entity in strange},
    }
    first = min(numbers, default=None)
    expected = None if first is None else Limit(first, *ORDER[first][1])

    assert QuotaRules(quotas).limit_of(BYTES, "alice", "app") == expected


def test_each_kind_of_quota_is_looked_for_by_itself() -> None:
    rules = QuotaRules(
        {
            QuotaEntity("alice", "app"): {QuotaKind.FETCH: 1.0},
            QuotaEntity(client_id=DEFAULT): {QuotaKind.PRODUCE: 2.0, "of a newer version": 3.0},
        }
    )

    assert rules.limit_of(QuotaKind.PRODUCE, "alice", "app") == Limit(2.0, None, "app")
    assert rules.limit_of(QuotaKind.FETCH, "alice", "app") == Limit(1.0, "alice", "app")
    assert rules.limit_of(QuotaKind.REQUEST, "alice", "app") is None
    assert [rules.has(kind) for kind in CLIENT_KINDS] == [True, True, False, False]


def test_an_address_without_a_quota_has_the_one_of_the_default_address() -> None:
    rates = {"10.0.0.1": 5.0, DEFAULT: 1.0}
    rules = QuotaRules(
        {QuotaEntity(ip=ip): {QuotaKind.CONNECTION: rate} for ip, rate in rates.items()}
    )

    assert rules.address_rate("10.0.0.1") == 5.0
    assert rules.address_rate("10.0.0.2") == 1.0
    assert QuotaRules({}).address_rate("10.0.0.2") is None
