"""What commands print, for machines and for people."""

import ast
import json
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.cli.decisions.printable import printable
from logstore.cli.output import (
    dollars_text,
    jsonable,
    print_facts,
    print_json,
    print_line,
    print_part,
    print_table,
    size_text,
    time_text,
)


class Kind(IntEnum):
    DATA = 1


class Pair(NamedTuple):
    left: int
    right: bytes


@dataclass(frozen=True)
class Thing:
    kind: Kind
    pairs: tuple[Pair, ...]
    names: dict[bytes, str]


def test_stored_values_become_json() -> None:
    thing = Thing(Kind.DATA, (Pair(1, b"\x00\xff"),), {b"k": "v"})

    assert jsonable(thing) == {
        "kind": 1,
        "pairs": [{"left": 1, "right": "00ff"}],
        "names": {"b'k'": "v"},
    }


@given(st.recursive(st.none() | st.integers() | st.text() | st.binary(), st.lists, max_leaves=20))
def test_whatever_it_gives_is_json(value: object) -> None:
    json.dumps(jsonable(value))


def test_a_plain_table_lines_numbers_up_on_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("things", ("name", "count"), [("a", 5), ("bcdef", 1000), ("g", "-")])

    assert capsys.readouterr().out == (
        "\nthings\n  name   count\n  a          5\n  bcdef   1000\n  g          -\n"
    )


def test_a_table_without_rows_has_its_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("things", ("name", "count"), [])

    assert capsys.readouterr().out == "\nthings\n  name  count\n"


def test_facts_line_up(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts([("a", 1), ("long name", "x")])

    assert capsys.readouterr().out == "a          1\nlong name  x\n"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (5 * 2**40, "5.0 TiB"),
        (2**60, "1024.0 PiB"),
    ],
)
def test_sizes_are_in_binary_units(count: int, text: str) -> None:
    assert size_text(count) == text


def test_little_money_keeps_its_digits() -> None:
    assert dollars_text(0.000005) == "$0.000005"
    assert dollars_text(1234.5) == "$1,234.50"


def test_times_are_utc_and_none_is_empty() -> None:
    assert time_text(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert time_text(-1) == ""
    assert time_text(2**62) == f"{2**62} ms"


STRANGE = "a\x1b]0;x\x07\x9b31m\nb\u202e\u2028\x7f\ud800"
SHOWN = r"a\x1b]0;x\x07\x9b31m\nb\u202e\u2028\x7f\ud800"


def test_names_that_strangers_chose_steer_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_line(STRANGE)
    print_part(STRANGE)
    print_facts([(STRANGE, STRANGE)])
    print_table(STRANGE, ("name",), [(STRANGE,)])

    assert capsys.readouterr().out.split("\n") == [
        *(SHOWN, "", SHOWN, f"{SHOWN}  {SHOWN}", "", SHOWN, "  name", f"  {SHOWN}", "")
    ]


@given(st.text())
def test_a_shown_text_is_one_line_without_steering(text: str) -> None:
    assert printable(text).isprintable()
    if text.isprintable():
        assert printable(text) == text


def test_json_on_a_terminal_steers_none_and_means_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_json({STRANGE: ["\U000e0001é"]})
    out = capsys.readouterr().out
    assert json.loads(out) == {STRANGE: ["\U000e0001é"]}
    assert out.replace("\n", "").isprintable()
    assert "é" in out


def test_commands_write_for_people_by_one_function() -> None:
    """Another `print` would show what strangers wrote as it is."""
    folder = Path(__file__).parents[3] / "logstore" / "cli"
    free = [
        f"{path.name}:{node.lineno}"
        for path in sorted(folder.rglob("*.py"))
        if path.name != "output.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("print", "sys.stdout.write", "sys.stderr.write")
    ]
    assert free == []
