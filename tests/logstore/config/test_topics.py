"""Topic configurations: Kafka's names, and what a topic's own configs and defaults come to."""

import pytest

from logstore.config.broker import BrokerSettings
from logstore.config.kinds import InvalidConfig
from logstore.config.topics import (
    BROKER_NAMES,
    TOPIC_SETTINGS,
    check_topic_configs,
    topic_value,
)

KAFKA_4_NAMES = [
    "cleanup.policy",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "follower.replication.throttled.replicas",
    "index.interval.bytes",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "preallocate",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
    "unclean.leader.election.enable",
]


def test_every_name_of_kafka_is_known() -> None:
    assert sorted(name for name in TOPIC_SETTINGS if not name.startswith("logstore.")) == sorted(
        KAFKA_4_NAMES
    )


@pytest.mark.parametrize("name", KAFKA_4_NAMES)
def test_a_default_is_a_value_the_setting_may_have(name: str) -> None:
    setting = TOPIC_SETTINGS[name]
    setting.parse(setting.default)

    assert setting.documentation.endswith(".")


def test_given_configs_are_checked_and_null_is_the_default() -> None:
    given = {"retention.ms": "-1", "segment.ms": None, "cleanup.policy": "compact,delete"}

    assert check_topic_configs(given) == {
        "retention.ms": "-1",
        "cleanup.policy": "compact,delete",
    }


@pytest.mark.parametrize(
    "configs",
    [
        {"no.such.name": "1"},
        {"no.such.name": None},
        {"retention.ms": "-2"},
        {"cleanup.policy": "delete,archive"},
        {"message.timestamp.type": "createtime"},
    ],
)
def test_what_kafka_refuses_is_refused(configs: dict[str, str | None]) -> None:
    with pytest.raises(InvalidConfig):
        check_topic_configs(configs)


def test_a_topics_own_config_prevails_over_the_brokers_default() -> None:
    defaults = BrokerSettings({"log.retention.ms": "5"}).topic_defaults

    assert topic_value("retention.ms", {}, defaults) == 5
    assert topic_value("retention.ms", {"retention.ms": "7"}, defaults) == 7
    assert topic_value("segment.ms", {}, defaults) == 604_800_000
    assert set(BROKER_NAMES) <= set(defaults)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
    ],
)
def test_the_finest_unit_of_retention_prevails(given: dict[str, str], expected: int) -> None:
    settings = BrokerSettings(given)
    assert topic_value("retention.ms", {}, settings.topic_defaults) == expected
    assert settings.number("log.retention.ms") == expected


def test_a_compacted_topic_has_a_table() -> None:
    without = {"cleanup.policy": "compact,delete", "logstore.table.enable": "false"}

    with pytest.raises(InvalidConfig, match="every record would stay for ever"):
        check_topic_configs(without)
    check_topic_configs({**without, "cleanup.policy": "delete"})
    check_topic_configs({**without, "logstore.table.enable": "true"})


def test_a_topic_that_inherits_compaction_has_a_table_too() -> None:
    defaults = BrokerSettings({"log.cleanup.policy": "compact"}).topic_defaults

    with pytest.raises(InvalidConfig, match="every record would stay for ever"):
        check_topic_configs({"logstore.table.enable": "false"}, defaults)
    check_topic_configs({"logstore.table.enable": "false", "cleanup.policy": "delete"}, defaults)


def test_no_record_is_to_be_kept_longer_than_it_may_stay() -> None:
    defaults = BrokerSettings({"log.cleaner.max.compaction.lag.ms": "5"}).topic_defaults
    pair = {"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"}

    with pytest.raises(InvalidConfig, match=r"min\.compaction\.lag\.ms=6 is above .*=5"):
        check_topic_configs(pair)
    with pytest.raises(InvalidConfig, match=r"min\.compaction\.lag\.ms=6 is above .*=5"):
        check_topic_configs({"min.compaction.lag.ms": "6"}, defaults)
    check_topic_configs({**pair, "max.compaction.lag.ms": "6"})


def test_brokers_publish_the_defaults_that_programs_beside_them_need() -> None:
    given = {
        "log.cleanup.policy": "compact",
        "log.cleaner.min.cleanable.ratio": "0.5",
        "log.cleaner.max.compaction.lag.ms": "60000",
        "log.retention.ms": "5",
    }

    assert BrokerSettings(given).published_topic_defaults == {
        "cleanup.policy": "compact",
        "max.compaction.lag.ms": "60000",
    }
    assert BrokerSettings({}).published_topic_defaults == {}
