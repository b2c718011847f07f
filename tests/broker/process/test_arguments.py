"""Which source of a setting prevails, and what `logstore config` prints of it."""

import argparse
import json
import tomllib
from pathlib import Path

import pytest

from broker.answers.decisions.shown_configs import show_broker_configs
from broker.process.arguments import add_arguments, printed_settings, settings_of
from logstore.cli.environment import SETTINGS
from logstore.config.printed import FORMATS
from logstore.config.sources import from_toml
from logstore.errors import Invalid
from logstore.stores.backends import Backends
from logstore.stores.location import DirectoryLocation


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(arguments)


def test_flags_prevail_over_pairs_over_the_environment_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "broker.toml"
    names = ["rack", "http", "url", "num.partitions"]
    config.write_text(
        "".join(f'"{name}" = "1"\n' for name in names) + 'listen = ["a:1", "B://b:2"]'
    )
    monkeypatch.setenv("LOGSTORE_CONFIG", str(config))
    for name in ("RACK", "HTTP", "URL"):
        monkeypatch.setenv(f"LOGSTORE_{name}", "2")
    settings = settings_of(parsed("--set", "rack=3", "--set", "http=3", "--rack", "4"))

    assert (settings.rack, settings.http, settings.url) == ("4", "3", "2")
    assert settings.settings.number("num.partitions") == 1
    assert settings.listen == ["a:1", "B://b:2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no log is named: give --url, LOGSTORE_URL in the environment, or url in a file"),
        (("--url", "a", "--broker", "-1"), "broker is a number from 0 up, or auto: '-1'"),
        (("--url", "a", "--config", "/none.toml"), "cannot read the settings of /none.toml"),
    ],
)
def test_arguments_that_make_no_sense_are_one_error(
    arguments: tuple[str, ...], message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        settings_of(parsed(*arguments))


def test_json_shows_value_origin_and_variable_of_every_setting() -> None:
    printed = printed_settings(parsed("--rack", "a", "--set", "log.retention.hours=1"), "json")
    lines = {line["name"]: line for line in json.loads(printed)["settings"]}

    assert lines.keys() == SETTINGS.keys()
    assert (lines["rack"]["value"], lines["rack"]["origin"]) == ("a", "--rack")
    retention = lines["log.retention.ms"]
    assert (retention["value"], retention["origin"]) == ("3600000", "log.retention.hours")
    assert lines["num.partitions"] == {
        "name": "num.partitions",
        "value": "1",
        "origin": "default",
        "hidden": False,
        "default": "1",
        "variable": "LOGSTORE_NUM_PARTITIONS",
        "documentation": SETTINGS["num.partitions"].documentation,
    }


def test_toml_is_a_file_that_gives_the_same_settings() -> None:
    arguments = ["--url", 'a"b\\\x7f', "--listen", "A://a:1", "--listen", "B://b:2"]
    arguments += ["--set", "num.partitions=3", "--set", "auto.create.topics.enable=FALSE"]
    document = tomllib.loads(printed_settings(parsed(*arguments), "toml"))

    assert {name: value.text for name, value in from_toml(SETTINGS, document, "").items()} == {
        "url": 'a"b\\\x7f',
        "listen": "A://a:1,B://b:2",
        "num.partitions": "3",
        "auto.create.topics.enable": "false",
    }


@pytest.mark.parametrize("style", FORMATS)
def test_a_secret_is_shown_to_no_user_and_no_client(
    style: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2\n")
    monkeypatch.setenv("LOGSTORE_STORAGE_PROFILE_FILE", str(secret))
    arguments = parsed("--url", "a")
    settings = settings_of(arguments).settings
    (shown,) = (one for one in show_broker_configs(settings) if one.name == "storage.profile")

    assert settings.text("storage.profile") == "hunter2"
    assert "hunter2" not in printed_settings(arguments, style)
    assert (shown.value, shown.is_sensitive) == (None, True)
    assert shown.synonyms[0].value is None


@pytest.mark.parametrize("style", FORMATS)
@pytest.mark.parametrize("password", ["canary", "can/ary", "can ary"])
def test_a_login_in_an_endpoint_is_neither_printed_nor_served(style: str, password: str) -> None:
    arguments = parsed("--url", "/log", "--set", f"storage.endpoint=https://me:{password}@host")
    text = printed_settings(arguments, style)
    assert "ary" not in text.replace("binary", "")
    with pytest.raises(Invalid, match=r"storage\.endpoint holds credentials") as refused:
        Backends(DirectoryLocation(Path("/log")), settings_of(arguments).settings.storage)
    assert "ary" not in str(refused.value)
