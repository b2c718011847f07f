"""A broker that has answered one process of a Spark application is waited for by the next ones."""

from pathlib import Path

import pytest

from logstore.errors import Retryable
from spark_source.sink.application import AnsweredBefore, application_folder

HERE = "file:///log", "127.0.0.1:9092"


def reach_none() -> None:
    raise Retryable("no broker answers")


def reach_one() -> None:
    """A broker has answered."""


@pytest.mark.parametrize("is_same_process", [True, False])
def test_a_broker_that_was_met_is_not_suspected_to_be_a_wrong_address(
    tmp_path: Path, is_same_process: bool
) -> None:
    first = AnsweredBefore(str(tmp_path), *HERE)
    first.require(reach_one)

    (first if is_same_process else AnsweredBefore(str(tmp_path), *HERE)).require(reach_none)


def test_a_broker_that_did_not_answer_is_asked_by_each_process(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(Retryable):
            AnsweredBefore(str(tmp_path), *HERE).require(reach_none)


@pytest.mark.parametrize("there", [("file:///log", ""), ("file:///other", "127.0.0.1:9092")])
def test_another_log_or_address_was_not_met(tmp_path: Path, there: tuple[str, str]) -> None:
    AnsweredBefore(str(tmp_path), *HERE).require(reach_one)

    with pytest.raises(Retryable):
        AnsweredBefore(str(tmp_path), *there).require(reach_none)


@pytest.mark.parametrize("folder", [None, "/nowhere/at/all"])
def test_without_a_folder_each_process_asks_for_itself(folder: str | None) -> None:
    first = AnsweredBefore(folder, *HERE)
    first.require(reach_one)
    first.require(reach_none)

    with pytest.raises(Retryable):
        AnsweredBefore(folder, *HERE).require(reach_none)


def test_the_folder_is_the_first_that_spark_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/a/blockmgr-1,/b/blockmgr-1")
    assert application_folder() == "/a/blockmgr-1"
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    assert application_folder() is None
