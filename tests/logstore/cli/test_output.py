"""What commands print, for machines and for people."""

import json
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.cli.output import (
    dollars_text,
    jsonable,
    print_facts,
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
