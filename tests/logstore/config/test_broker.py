"""Broker settings: from the command line and from TOML, with errors that name what is wrong."""

import tomllib

import pytest

from logstore.config.address_overrides import parse_overrides
from logstore.config.broker import BROKER_SETTINGS, BrokerSettings, read_settings
from logstore.config.kinds import InvalidConfig
from logstore.config.process import BY_STORE


@pytest.mark.parametrize("name", BROKER_SETTINGS)
def test_a_default_is_a_value_the_setting_may_have(name: str) -> None:
    setting = BROKER_SETTINGS[name]

    assert setting.default == BY_STORE or setting.parse(setting.default) is not None
    assert setting.documentation.endswith(".")


def test_the_command_line_prevails_over_the_file() -> None:
    toml = tomllib.loads(
        """
        "num.partitions" = 3
        auto.create.topics.enable = false
        [logstore.flush.interval]
        ms = 50
        """
    )
    settings = read_settings(["num.partitions = 4"], toml)

    assert settings.number("num.partitions") == 4
    assert settings.number("logstore.flush.interval.ms", 100) == 50
    assert settings.flag("auto.create.topics.enable") is False


def test_what_depends_on_the_store_is_left_to_it() -> None:
    assert BrokerSettings().number("logstore.flush.interval.ms", 77) == 77
    assert BrokerSettings().flag("auto.create.topics.enable")


def test_lists_may_be_written_as_lists() -> None:
    settings = read_settings([], {"log": {"cleanup": {"policy": ["compact", "delete"]}}})

    assert settings.text("log.cleanup.policy") == "compact,delete"


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("num.partition=4", "did you mean num.partitions?"),
        ("num.partitions", "not of the form name=value"),
        ("num.partitions=none", "num.partitions"),
        ("num.partitions=0", "at least 1"),
        ("max.connections.per.ip.overrides=here:5", "'here' is no IP address"),
        ("max.connections.per.ip.overrides=10.0.0.7", "no IP address; give ADDRESS:COUNT"),
        ("max.connections.per.ip.overrides=10.0.0.7:all", "'10.0.0.7:all' has no count"),
        ("retention.ms=5", "did you mean log.retention.ms?"),
    ],
)
def test_an_error_says_what_is_wrong(pair: str, said: str) -> None:
    with pytest.raises(InvalidConfig, match=said.replace("?", r"\?").replace(".", r"\.")):
        read_settings([pair])


def test_addresses_have_limits_of_their_own_in_any_form_they_are_written() -> None:
    name = "max.connections.per.ip.overrides"
    settings = read_settings([f"{name}=10.0.0.7:500, [2001:DB8::1]:0,::ffff:10.0.0.8:2"])

    assert parse_overrides(settings.text(name)) == {
        "10.0.0.7": 500,
        "2001:db8::1": 0,
        "10.0.0.8": 2,
    }
