"""Broker settings: defaults, values, and errors that name what is wrong."""

import pytest

from logstore.config.address_overrides import parse_overrides
from logstore.config.broker import BROKER_SETTINGS, BrokerSettings
from logstore.config.kinds import InvalidConfig
from logstore.config.process import BY_STORE


@pytest.mark.parametrize("name", BROKER_SETTINGS)
def test_a_default_is_a_value_the_setting_may_have(name: str) -> None:
    setting = BROKER_SETTINGS[name]

    assert setting.default == BY_STORE or setting.parse(setting.default) is not None
    assert setting.documentation.endswith(".")


def test_what_depends_on_the_store_is_left_to_it() -> None:
    assert BrokerSettings().number("logstore.flush.interval.ms", 77) == 77
    assert BrokerSettings().flag("auto.create.topics.enable")


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("num.partition=4", "did you mean num.partitions?"),
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
        name, _, value = pair.partition("=")
        BrokerSettings({name: value})


def test_addresses_have_limits_of_their_own_in_any_form_they_are_written() -> None:
    name = "max.connections.per.ip.overrides"
    settings = BrokerSettings({name: "10.0.0.7:500, [2001:DB8::1]:0,::ffff:10.0.0.8:2"})

    assert parse_overrides(settings.text(name)) == {
        "10.0.0.7": 500,
        "2001:db8::1": 0,
        "10.0.0.8": 2,
    }
