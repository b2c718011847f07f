"""A listener's own settings: from every source, before those of all; misspelt ones are refused."""

import pytest

from logstore.cli.environment import SETTINGS, environment_settings
from logstore.config.broker import BrokerSettings
from logstore.config.kinds import InvalidConfig
from logstore.config.listener_settings import check_listeners
from logstore.config.printed import TOML, effective, render
from logstore.config.sources import from_pairs, from_toml

AUTH = "listener.name.external.ssl.client.auth"


def test_a_listeners_own_value_prevails_for_it_alone() -> None:
    settings = BrokerSettings({AUTH: "required", "ssl.client.auth": "requested"})
    assert settings.of_listener("EXTERNAL").text("ssl.client.auth") == "required"
    assert settings.of_listener("INTERNAL").text("ssl.client.auth") == "requested"
    assert settings.of_listener("EXTERNAL").number("num.partitions") == 1


def test_all_sources_give_it() -> None:
    document = {"listener": {"name": {"external": {"ssl": {"client.auth": "required"}}}}}
    assert from_toml(SETTINGS, document, "x.toml")[AUTH].text == "required"
    assert from_pairs(SETTINGS, [f"{AUTH}=required"])[AUTH].text == "required"
    variable = "LOGSTORE_LISTENER_NAME_EXTERNAL_SSL_CLIENT_AUTH"
    assert environment_settings({variable: "required"})[AUTH].text == "required"


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.external.num.partitions",
        "listener.name..ssl.client.auth",
        "listener.name.external.ssl.client.aut",
        "listener.name.EXTERNAL.ssl.client.auth",
        "listener.name.external",
    ],
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidConfig, match="unknown configuration name"):
        from_pairs(SETTINGS, [f"{name}=required"])


def test_values_are_checked() -> None:
    with pytest.raises(InvalidConfig, match=AUTH):
        BrokerSettings({AUTH: "perhaps"})


def test_a_listener_that_there_is_not_is_refused() -> None:
    check_listeners([AUTH, "num.partitions"], ["EXTERNAL"])
    with pytest.raises(InvalidConfig, match=r"listener\.name\.external"):
        check_listeners([AUTH], ["EXTERNALS"])


@pytest.mark.parametrize(
    "name", ["ssl.key.password", "ssl.keystore.key", "listener.name.x.ssl.keystore.password"]
)
def test_secrets_are_taken_from_files_and_the_environment_and_never_shown(
    name: str,
) -> None:
    canary = "canary-91c"
    with pytest.raises(InvalidConfig, match="_FILE") as error:
        from_pairs(SETTINGS, [f"{name}={canary}"])
    assert canary not in str(error.value)
    given = from_toml(SETTINGS, {name: canary}, "x.toml")
    assert canary not in render(effective(SETTINGS, given, {}), TOML)
    assert name in BrokerSettings({name: canary}).hidden


def test_a_class_that_builds_principals_is_refused_with_the_rules_in_its_place() -> None:
    with pytest.raises(InvalidConfig, match=r"ssl\.principal\.mapping\.rules"):
        from_pairs(SETTINGS, ["principal.builder.class=org.example.Builder"])
