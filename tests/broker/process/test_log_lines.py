"""Log lines: one each, as text or as JSON that a machine takes apart."""

import json
import logging
import sys
from typing import Any

import pytest

from broker.process.log_lines import JSON, TEXT, configure_log_lines


@pytest.fixture(autouse=True)
def _as_it_was() -> Any:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in ("broker", "logstore")}
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def line_of(form: str, *said: Any, exc_info: Any = None) -> str:
    configure_log_lines(form)
    (handler,) = logging.getLogger().handlers
    record = logging.LogRecord("broker.x", logging.WARNING, "x.py", 1, said[0], said[1:], exc_info)
    record.created, record.msecs = 1_769_860_800.123, 123.0
    return handler.format(record)


def test_text_is_time_level_name_and_message() -> None:
    line = line_of(TEXT, "closed: peer=%s", "a:1")
    assert line == "2026-01-31T12:00:00.123Z WARNING broker.x closed: peer=a:1"


@pytest.mark.parametrize(
    "said", ["two\nlines", "two\r\nlines", "\x1b[2Jred", "\x85", "\u2028", "\0"]
)
def test_text_is_one_line_of_no_control_characters_whatever_a_client_calls_itself(
    said: str,
) -> None:
    line = line_of(TEXT, "closed: client_id=%s", said)
    assert line.isprintable()
    assert len(line.splitlines()) == 1
    assert said.encode("unicode_escape").decode() in line


def test_text_shows_letters_of_any_language_as_they_are() -> None:
    assert line_of(TEXT, "closed: client_id=%s", "größe 大きさ").endswith("client_id=größe 大きさ")


def test_json_has_the_same_and_the_facts_by_name() -> None:
    line = line_of(
        JSON, "100%% of %d closed: peer=%s count=%d for_s=%.1f %s", 3, "a:1", 7, 2.5, "z"
    )
    assert json.loads(line) == {
        "time": "2026-01-31T12:00:00.123Z",
        "level": "WARNING",
        "logger": "broker.x",
        "message": "100% of 3 closed: peer=a:1 count=7 for_s=2.5 z",
        "facts": {"peer": "a:1", "count": 7, "for_s": 2.5},
    }


def test_json_without_facts_has_none() -> None:
    assert "facts" not in json.loads(
        line_of(JSON, "the store accepts puts again, after %.0f s", 3.0)
    )
    assert json.loads(line_of(JSON, "as it is: 50%"))["message"] == "as it is: 50%"


def test_json_takes_any_value_and_stays_one_line() -> None:
    line = line_of(JSON, "a=%s b=%s c=%s", ValueError("two\nlines"), float("inf"), None)
    assert "\n" not in line
    assert json.loads(line)["facts"] == {"a": "two\nlines", "b": "inf", "c": None}


def test_json_tells_a_fault_in_one_line() -> None:
    try:
        raise ValueError("what it was")
    except ValueError:
        line = line_of(JSON, "request failed: api=%s", "Fetch", exc_info=sys.exc_info())
    assert "\n" not in line
    assert "ValueError: what it was" in json.loads(line)["exception"]


def test_libraries_are_heard_from_warning_on_and_we_from_info_on() -> None:
    configure_log_lines(JSON)
    assert not logging.getLogger("botocore").isEnabledFor(logging.INFO)
    assert logging.getLogger("broker.x").isEnabledFor(logging.INFO)
