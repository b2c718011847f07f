"""Advice on a session's settings, and a builder that takes it."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark_source.settings import SETTINGS, advice, configure


class Builder:
    def __init__(self, **options: str) -> None:
        self._options = {name.replace("__", "."): value for name, value in options.items()}
        self.settings: dict[str, str] = {}

    def config(self, name: str, value: str) -> "Builder":
        self.settings[name] = value
        return self


def session(**settings: str) -> Any:
    given = {name.replace("__", "."): value for name, value in settings.items()}
    return SimpleNamespace(conf=SimpleNamespace(get=lambda name, preset: given.get(name, preset)))


def test_a_configured_session_gets_no_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "whatever, to be put back")
    monkeypatch.delenv("PYSPARK_PYTHON")
    builder = configure(Builder())

    assert builder.settings == {one.name: one.value for one in SETTINGS}
    given = {name.replace(".", "__"): value for name, value in builder.settings.items()}
    assert advice(session(**given)) == []


def test_executors_run_this_interpreter_unless_another_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "whatever, to be put back")
    monkeypatch.delenv("PYSPARK_PYTHON")
    configure(Builder())
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "/another/python")
    configure(Builder())
    assert os.environ["PYSPARK_PYTHON"] == "/another/python"


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ({"spark__master": "yarn"}, {}),
        ({"spark__master": "spark://host:7077"}, {"PYSPARK_SUBMIT_ARGS": "--master local[2] x"}),
        ({"spark__remote": "sc://host"}, {}),
        ({}, {"SPARK_REMOTE": "sc://host"}),
        ({}, {"PYSPARK_SUBMIT_ARGS": "--name a --master k8s://h:1 pyspark-shell"}),
        ({}, {"PYSPARK_SUBMIT_ARGS": "--conf spark.master=yarn pyspark-shell"}),
        ({}, {"PYSPARK_GATEWAY_PORT": "12345"}),
        ({}, {"SPARK_CONF_DIR": "{conf}"}),
        ({}, {"SPARK_HOME": "{home}"}),
    ],
    ids=["yarn", "cluster", "remote", "connect", "k8s", "conf", "submitted", "defaults", "home"],
)
def test_executors_elsewhere_run_an_interpreter_of_their_own(
    options: dict[str, str],
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.x 1\nspark.master\tyarn\n")
    for name in ("PYSPARK_PYTHON", "SPARK_REMOTE", "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.setenv(name, "whatever, to be put back")
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(conf=tmp_path / "conf", home=tmp_path))

    configure(Builder(**options))

    assert "PYSPARK_PYTHON" not in os.environ


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2,3]"])
def test_a_local_master_runs_the_interpreter_that_runs_here(
    master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "whatever, to be put back")
    monkeypatch.delenv("PYSPARK_PYTHON")

    configure(Builder(spark__master=master))

    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_advice_names_setting_value_and_reason() -> None:
    (socket,) = advice(session())
    assert "spark.python.unix.domain.socket.enabled=true" in socket
    assert "a Python task costs" in socket
    _, shuffle = advice(session(spark__master="local[2]"))
    assert shuffle.startswith("set spark.sql.shuffle.partitions=")
