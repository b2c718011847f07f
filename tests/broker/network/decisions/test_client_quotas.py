"""Quotas in force: who shares them, what counts, and how many clients are tracked."""

import pytest

from broker.network.decisions.client_quotas import ClientQuotas
from broker.network.decisions.quota_rules import QuotaKind
from logstore.formats.quota_row import DEFAULT, QuotaEntity, Quotas

ALICE, BOB = "User:alice", "User:bob"
SECOND_MS = 1000


def in_force(quotas: Quotas, tracked_max: int = 100) -> ClientQuotas:
    known = ClientQuotas(tracked_max)
    known.apply(quotas)
    return known


def test_without_quotas_of_clients_there_is_nothing_to_ask_for() -> None:
    none = in_force({})
    addresses = in_force({QuotaEntity(ip=DEFAULT): {QuotaKind.CONNECTION: 5.0}})
    bytes_alone = in_force({QuotaEntity("alice"): {QuotaKind.PRODUCE: 5.0}})

    assert (none.is_active, none.limits_time, none.limits_connections) == (False, False, False)
    assert (addresses.is_active, addresses.limits_connections) == (False, True)
    assert (bytes_alone.is_active, bytes_alone.limits_time) == (True, False)
    assert bytes_alone.produced_ms(BOB, "app", 10**9, 0.0) == 0
    assert bytes_alone.tracked_count == 0


def test_clients_of_a_user_share_the_users_quota_and_no_others() -> None:
    quotas = in_force({QuotaEntity(DEFAULT): {QuotaKind.PRODUCE: 100.0}})

    assert quotas.produced_ms(ALICE, "one", 1000, 0.0) == 0
    assert quotas.produced_ms(ALICE, "two", 100, 0.0) == SECOND_MS
    assert quotas.produced_ms(BOB, "one", 1000, 0.0) == 0
    assert quotas.tracked_count == 2


def test_users_of_a_client_id_share_its_quota() -> None:
    quotas = in_force({QuotaEntity(client_id=DEFAULT): {QuotaKind.PRODUCE: 100.0}})

    assert quotas.produced_ms(ALICE, "app", 1000, 0.0) == 0
    assert quotas.produced_ms(BOB, "app", 100, 0.0) == SECOND_MS
    assert quotas.produced_ms(BOB, None, 1100, 0.0) == SECOND_MS, "no name is a name"


def test_a_changed_quota_is_in_force_at_once_and_what_was_done_counts() -> None:
    quotas = in_force({QuotaEntity("alice"): {QuotaKind.PRODUCE: 1000.0}})
    assert quotas.produced_ms(ALICE, "app", 1000, 0.0) == 0
    quotas.apply({QuotaEntity("alice"): {QuotaKind.PRODUCE: 50.0}})
    assert quotas.produced_ms(ALICE, "app", 0, 0.0) == 10 * SECOND_MS
    quotas.apply({})
    assert quotas.produced_ms(ALICE, "app", 10**9, 0.0) == 0


def test_an_answer_that_is_not_given_does_not_count() -> None:
    quotas = in_force({QuotaEntity("alice"): {QuotaKind.FETCH: 100.0}})

    assert quotas.fetched_ms(ALICE, "app", 900, 0.0) == (0, True)
    assert quotas.fetched_ms(ALICE, "app", 300, 0.0) == (2 * SECOND_MS, False)
    assert quotas.fetched_ms(ALICE, "app", 100, 0.0) == (0, True)


def test_a_batch_beyond_the_quota_of_all_windows_is_read_all_the_same() -> None:
    quotas = in_force({QuotaEntity("alice"): {QuotaKind.FETCH: 1.0}})

    assert quotas.fetched_ms(ALICE, "app", 100, 0.0) == (90 * SECOND_MS, True)
    assert not quotas.fetched_ms(ALICE, "app", 100, 5.0)[1]
    assert not quotas.fetched_ms(ALICE, "app", 100, 10.9)[1]
    assert quotas.fetched_ms(ALICE, "app", 100, 11.0)[1], "nothing was served in these windows"


def test_an_answer_to_a_consumer_has_the_quota_of_all_windows_at_most() -> None:
    quotas = in_force({QuotaEntity("alice"): {QuotaKind.FETCH: 100.0}})

    assert quotas.fetch_bytes_max(ALICE, "app", 5000) == 1000
    assert quotas.fetch_bytes_max(ALICE, "app", 500) == 500
    assert quotas.fetch_bytes_max(BOB, "app", 5000) == 5000


def test_time_counts_as_percent_of_one_core_and_is_throttled_for_a_window_at_most() -> None:
    quotas = in_force({QuotaEntity("alice"): {QuotaKind.REQUEST: 10.0}})

    quotas.used_time(ALICE, "app", 1.0, 0.0)  # 100 %, over 10 s: 10 %
    assert quotas.request_ms(ALICE, "app", 0.0) == 0
    quotas.used_time(ALICE, "app", 0.05, 0.0)
    assert quotas.request_ms(ALICE, "app", 0.0) == SECOND_MS // 2
    quotas.used_time(ALICE, "app", 10.0, 0.0)
    assert quotas.request_ms(ALICE, "app", 0.0) == SECOND_MS
    assert quotas.request_ms(BOB, "app", 0.0) == 0


def test_changes_of_the_cluster_have_a_bucket() -> None:
    quotas = in_force({QuotaEntity("alice"): {QuotaKind.MUTATION: 2.0}})

    assert quotas.mutation_ms(ALICE, "app", 0.0) == 0
    quotas.mutated(ALICE, "app", 30, 0.0)
    assert quotas.mutation_ms(ALICE, "app", 0.0) == 4 * SECOND_MS
    assert quotas.mutation_ms(ALICE, "app", 4.0) == 0
    assert quotas.mutation_ms(BOB, "app", 0.0) == 0


def test_connections_beyond_the_rate_of_their_address_do_not_count() -> None:
    quotas = in_force({QuotaEntity(ip="10.0.0.1"): {QuotaKind.CONNECTION: 1.0}})

    assert [quotas.connected_s("10.0.0.1", 0.0) for _ in range(10)] == [0.0] * 10
    assert quotas.connected_s("::ffff:10.0.0.1", 0.0) == pytest.approx(1.0)
    assert quotas.connected_s("10.0.0.1", 0.0) == pytest.approx(1.0)
    assert quotas.connected_s("10.0.0.2", 0.0) == 0.0
    assert quotas.connected_s("10.0.0.1", 11.0) == 0.0
    assert quotas.throttled_counts == {QuotaKind.CONNECTION: 2}
    assert quotas.throttled_s[QuotaKind.CONNECTION] == pytest.approx(2.0)


def test_a_bounded_number_of_clients_is_tracked_and_the_busiest_stay() -> None:
    quotas = in_force({QuotaEntity(client_id=DEFAULT): {QuotaKind.PRODUCE: 100.0}}, tracked_max=50)
    for number in range(1000):
        assert quotas.produced_ms(ALICE, "busy", 2 * (number == 0) * 1000, 0.0) == 10 * SECOND_MS
        quotas.produced_ms(ALICE, f"app-{number}", 1, 0.0)

    assert quotas.tracked_count == 50


def test_clients_that_are_as_good_as_new_are_forgotten() -> None:
    quotas = in_force({QuotaEntity(client_id=DEFAULT): {QuotaKind.PRODUCE: 100.0}})
    for number in range(40):
        quotas.produced_ms(ALICE, f"app-{number}", 1, 0.0)
    for number in range(40, 60):
        quotas.produced_ms(ALICE, f"app-{number}", 1, 11.0)

    assert quotas.tracked_count == 20
