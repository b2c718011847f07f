"""Advice on a session's settings, and a builder that takes it."""

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from spark_source.settings import SETTINGS, advice, configure


class Builder:
    def __init__(self) -> None:
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
    monkeypatch.setattr(sys, "executable", "/another/python")
    configure(Builder())
    assert os.environ["PYSPARK_PYTHON"] != "/another/python"


def test_advice_names_setting_value_and_reason() -> None:
    (socket,) = advice(session())
    assert "spark.python.unix.domain.socket.enabled=true" in socket
    assert "a Python task costs" in socket
    _, shuffle = advice(session(spark__master="local[2]"))
    assert shuffle.startswith("set spark.sql.shuffle.partitions=")
