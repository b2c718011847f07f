"""Settings of brokers in the registry: changed on condition of their row."""

import pytest

from logstore.errors import ConditionFailed, Retryable
from logstore.formats.config_row import CONFIG, CONFIGS_CHANGED, ConfigRow
from logstore.formats.feed_row import FeedRow
from logstore.ports.registry import Comparison, RowAbsent
from logstore.protocol.rows.broker_configs import (
    ATTEMPTS_MAX,
    change_broker_configs,
    read_broker_configs,
)
from logstore.protocol.rows.view import read_update
from logstore.protocol.steps import PutRow, QueryRows
from logstore.testing.scripted import drive

KNOWN = ConfigRow(3, {"num.partitions": "3"})


def test_the_bytes_of_a_row() -> None:
    assert KNOWN.row() == {"version": 3, "configs": '{"num.partitions": "3"}'}
    assert ConfigRow.of(KNOWN.row()) == KNOWN


def test_the_first_setting_makes_its_row() -> None:
    row, made = drive(change_broker_configs("7", lambda _: {"a": "1"}), [None, None])

    assert row == ConfigRow(1, {"a": "1"})
    assert made[-1] == PutRow(CONFIG, "broker=7", row.row(), [RowAbsent()])


def test_of_two_changes_at_once_both_are_kept() -> None:
    lost = ConditionFailed("lost", KNOWN.row())
    change = change_broker_configs("", lambda known: {**known, "a": "1"})
    row, made = drive(change, [None, lost, KNOWN.row(), None])

    assert row == ConfigRow(4, {"num.partitions": "3", "a": "1"})
    last = made[-1]
    assert isinstance(last, PutRow)
    assert last.conditions == [Comparison("version", "=", 3)]


def test_nothing_is_written_where_nothing_changes() -> None:
    row, made = drive(change_broker_configs("7", dict), [KNOWN.row()])
    assert (row, len(made)) == (KNOWN, 1)


def test_a_change_that_loses_every_race_is_given_up() -> None:
    lost = ConditionFailed("lost", KNOWN.row())
    with pytest.raises(Retryable, match="concurrent"):
        drive(change_broker_configs("7", lambda _: {}), [KNOWN.row(), lost] * ATTEMPTS_MAX)


def test_brokers_learn_of_changed_settings_by_the_feed() -> None:
    rows = [("broker=", KNOWN.row()), ("broker=7", ConfigRow(1, {}).row())]
    configs, _ = drive(read_broker_configs(), [rows])
    assert configs == {"": KNOWN.configs, "7": {}}

    feed = FeedRow(version=4).with_changes([CONFIGS_CHANGED])
    update, made = drive(read_update(4), [feed.row(), rows, []])
    assert update is not None
    assert (update.configs, update.quotas, update.topics) == (configs, None, {})
    assert made[1] == QueryRows(CONFIG, "broker=")
