"""Settings from a file, the environment and pairs: each with its origin, or one clear error."""

import tomllib
from collections.abc import Mapping

import pytest

from logstore.cli.environment import SETTINGS
from logstore.config.kinds import InvalidConfig
from logstore.config.sources import (
    NO_SETTINGS,
    Given,
    GivenValue,
    from_environment,
    from_pairs,
    from_toml,
    variable_of,
)

FILES = {"/run/secrets/n": "7\n", "/run/secrets/bad": "hunter2\n"}


def read(path: str) -> str:
    if path not in FILES:
        raise FileNotFoundError("no such file")
    return FILES[path]


def of(environment: Mapping[str, str]) -> Given:
    return from_environment(SETTINGS, environment, read)


def test_each_setting_has_one_variable_of_its_own() -> None:
    variables = [variable_of(name) for name in SETTINGS]

    assert len(set(variables) | NO_SETTINGS) == len(variables) + len(NO_SETTINGS)
    assert not [one for one in variables if f"{one}_FILE" in variables]


def test_a_file_may_nest_names_or_quote_them() -> None:
    document = tomllib.loads(
        """
        url = "./data"
        "num.partitions" = 3
        auto.create.topics.enable = false
        log.cleanup.policy = ["compact", "delete"]
        [logstore.flush.interval]
        ms = 50
        """
    )
    given = from_toml(SETTINGS, document, "broker.toml")

    assert {name: value.text for name, value in given.items()} == {
        "url": "./data",
        "num.partitions": "3",
        "auto.create.topics.enable": "false",
        "log.cleanup.policy": "compact,delete",
        "logstore.flush.interval.ms": "50",
    }
    assert {value.origin for value in given.values()} == {"broker.toml"}


def test_variables_give_settings_and_files_give_secrets() -> None:
    given = of(
        {
            "LOGSTORE_CACHE_BYTES": "2097152",
            "LOGSTORE_STORAGE_REGION": "eu-west-1",
            "LOGSTORE_NUM_PARTITIONS_FILE": "/run/secrets/n",
            "LOGSTORE_RACK": "",
            "LOGSTORE_NATIVE": "0",
            "PATH": "/bin",
        }
    )

    assert given == {
        "logstore.cache.bytes": GivenValue("2097152", "LOGSTORE_CACHE_BYTES"),
        "storage.region": GivenValue("eu-west-1", "LOGSTORE_STORAGE_REGION"),
        "num.partitions": GivenValue("7", "LOGSTORE_NUM_PARTITIONS_FILE", is_hidden=True),
    }


def test_variables_of_a_kubernetes_service_are_not_ours() -> None:
    links = {
        "LOGSTORE_SERVICE_HOST": "10.0.0.1",
        "LOGSTORE_SERVICE_PORT": "9092",
        "LOGSTORE_SERVICE_PORT_KAFKA": "9092",
        "LOGSTORE_PORT": "tcp://10.0.0.1:9092",
        "LOGSTORE_BROKERS_PORT_9092_TCP": "tcp://10.0.0.1:9092",
        "LOGSTORE_BROKERS_PORT_9092_TCP_PROTO": "tcp",
        "LOGSTORE_BROKERS_PORT_9092_TCP_ADDR": "10.0.0.1",
        "LOGSTORE_BROKERS_PORT_9092_TCP_PORT": "9092",
    }

    assert of(links) == {}


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"LOGSTORE_NUM_PARTITION": "3"}, "LOGSTORE_NUM_PARTITION; did you mean LOGSTORE_NUM_PART"),
        ({"LOGSTORE_PORT": "here"}, "no setting has the environment variable LOGSTORE_PORT"),
        ({"LOGSTORE_NUM_PARTITIONS": "x"}, "not of type int, in LOGSTORE_NUM_PARTITIONS$"),
        ({"LOGSTORE_URL_FILE": "/none"}, "cannot read /none, which LOGSTORE_URL_FILE names: no"),
        ({"LOGSTORE_URL": "a", "LOGSTORE_URL_FILE": "/run/secrets/n"}, "are both set; unset one"),
    ],
)
def test_an_error_names_the_variable(environment: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        of(environment)


def test_an_error_does_not_quote_a_secret() -> None:
    with pytest.raises(InvalidConfig, match="in the file of LOGSTORE_NUM_PARTITIONS_FILE") as error:
        of({"LOGSTORE_NUM_PARTITIONS_FILE": "/run/secrets/bad"})

    assert "hunter2" not in str(error.value)


def test_an_error_of_a_file_names_it() -> None:
    with pytest.raises(InvalidConfig, match=r"did you mean num.partitions\?, in broker.toml"):
        from_toml(SETTINGS, {"num": {"partition": 3}}, "broker.toml")


def test_a_pair_has_an_equal_sign() -> None:
    assert from_pairs(SETTINGS, ["url = a=b"])["url"].text == "a=b"
    with pytest.raises(InvalidConfig, match="not of the form name=value"):
        from_pairs(SETTINGS, ["num.partitions"])
