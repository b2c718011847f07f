"""Quotas in the registry: changed on condition of their row, each entity by itself."""

import pytest

from logstore.errors import ConditionFailed, Retryable
from logstore.formats.feed_row import FeedChange, FeedRow
from logstore.formats.quota_row import QUOTA, QUOTAS_CHANGED, QuotaEntity, QuotaRow
from logstore.ports.registry import Comparison, RowAbsent
from logstore.protocol.rows.quotas import (
    ATTEMPTS_MAX,
    ROW_BYTES_MAX,
    Change,
    TooManyQuotas,
    change_quotas,
    changed_values,
    read_quotas,
)
from logstore.protocol.rows.view import read_update
from logstore.protocol.steps import GetRow, PutRow, QueryRows
from logstore.testing.scripted import drive

ALICE, BOB = QuotaEntity("alice"), QuotaEntity("bob")
KNOWN = QuotaRow(7, {BOB: {"producer_byte_rate": 5.0}})


def test_the_first_quota_makes_its_row() -> None:
    row, made = drive(change_quotas("3", {ALICE: {"producer_byte_rate": 1.0}}), [None, None])

    assert row == QuotaRow(1, {ALICE: {"producer_byte_rate": 1.0}})
    assert made == [GetRow(QUOTA, "3"), PutRow(QUOTA, "3", row.row(), [RowAbsent()])]


def test_of_two_changes_at_once_both_are_kept() -> None:
    change = {ALICE: {"producer_byte_rate": 1.0, "request_percentage": None}}
    lost = ConditionFailed("lost", KNOWN.row())
    row, made = drive(change_quotas("3", change), [None, lost, KNOWN.row(), None])

    assert row.quotas == {**KNOWN.quotas, ALICE: {"producer_byte_rate": 1.0}}
    last = made[-1]
    assert isinstance(last, PutRow)
    assert last.conditions == [Comparison("version", "=", 7)]


def test_the_last_value_takes_its_entity_and_not_the_row() -> None:
    row, _ = drive(change_quotas("3", {BOB: {"producer_byte_rate": None}}), [KNOWN.row(), None])

    assert row == QuotaRow(8, {})


def test_nothing_is_written_where_nothing_changes() -> None:
    change: dict[QuotaEntity, Change] = {
        BOB: {"producer_byte_rate": 5.0},
        ALICE: {"request_percentage": None},
    }
    row, made = drive(change_quotas("3", change), [KNOWN.row()])

    assert row == KNOWN
    assert len(made) == 1


def test_a_change_that_loses_every_race_is_given_up() -> None:
    lost = ConditionFailed("lost", KNOWN.row())
    with pytest.raises(Retryable, match="concurrent"):
        drive(
            change_quotas("3", {ALICE: {"request_percentage": 1.0}}),
            [KNOWN.row(), lost] * ATTEMPTS_MAX,
        )


def test_a_row_has_a_bound_and_a_full_one_takes_removals() -> None:
    many = {QuotaEntity(f"user-{n}" * 20): {"producer_byte_rate": 1.0} for n in range(1000)}
    full = QuotaRow(1, many)
    assert len(str(full.row()["quotas"])) > ROW_BYTES_MAX
    with pytest.raises(TooManyQuotas, match="too many client quotas"):
        drive(change_quotas("3", {ALICE: {"request_percentage": 1.0}}), [full.row()])
    first = next(iter(many))
    row, _ = drive(change_quotas("3", {first: {"producer_byte_rate": None}}), [full.row(), None])
    assert len(row.quotas) == len(many) - 1


def test_quotas_of_all_rows_are_read_together() -> None:
    other = QuotaRow(1, {ALICE: {"request_percentage": 1.0}})
    quotas, made = drive(read_quotas(), [[("3", KNOWN.row()), ("4", other.row())]])

    assert quotas == {**KNOWN.quotas, **other.quotas}
    assert made == [QueryRows(QUOTA)]
    assert changed_values({"a": 1.0, "b": 2.0}, {"a": None, "c": 3.0}) == {
        "b": 2.0,
        "c": 3.0,
    }


def test_brokers_learn_of_changed_quotas_by_the_feed() -> None:
    feed = FeedRow(version=4).with_changes([QUOTAS_CHANGED])
    update, made = drive(read_update(4), [feed.row(), [("3", KNOWN.row())], []])

    assert update is not None
    assert (update.quotas, update.topics, update.partitions) == (KNOWN.quotas, {}, {})
    assert made[1] == QueryRows(QUOTA)


def test_other_changes_read_no_quotas() -> None:
    feed = FeedRow(version=4).with_changes([FeedChange("orders", b"i" * 16)])
    update, made = drive(read_update(4), [feed.row(), None, []])

    assert update is not None
    assert update.quotas is None
    assert QueryRows(QUOTA) not in made
