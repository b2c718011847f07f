"""Records as lines: plain, with keys, and as JSON that comes back as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.cli.brokers.produce import LINE_BYTES_MAX, read_lines
from logstore.cli.decisions.record_lines import (
    RecordLine,
    format_json,
    format_plain,
    parse_json,
    parse_plain,
)
from logstore.errors import Invalid


def test_a_plain_line_is_a_value() -> None:
    assert parse_plain(b"a:b", None) == RecordLine(value=b"a:b")


def test_a_separator_parts_key_and_value_once() -> None:
    assert parse_plain(b"a:b:c", b":") == RecordLine(key=b"a", value=b"b:c")
    assert parse_plain(b"abc", b":") == RecordLine(value=b"abc")
    assert parse_plain(b":", b":") == RecordLine(key=b"", value=b"")


def test_what_is_printed_can_be_read_again() -> None:
    assert format_plain(b"k", b"v", b"=") == b"k=v"
    assert format_plain(b"k", b"v", None) == b"v"
    assert format_plain(None, b"v", b"=") == b"v"
    assert format_plain(b"k", None, b"=") == b"k="


@given(
    key=st.none() | st.binary(max_size=20),
    value=st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode),
    headers=st.dictionaries(st.text(max_size=5), st.none() | st.binary(max_size=5), max_size=3),
    timestamp=st.integers(0, 2**62),
)
def test_json_keeps_every_byte(
    key: bytes | None, value: bytes | None, headers: dict[str, bytes | None], timestamp: int
) -> None:
    line = format_json("t", 3, 7, timestamp, key, value, headers)

    assert b"\n" not in line
    assert parse_json(line) == RecordLine(
        key=key, value=value, headers=tuple(headers.items()), partition=3, timestamp=timestamp
    )


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b'{"valeu": "x"}',
        b'{"value": 5}',
        b'{"value": {"base64": "?"}}',
        b'{"value": {"base64": 5}}',
        b'{"value": "x", "headers": []}',
        b'{"value": "x", "partition": -1}',
        b'{"value": "x", "partition": true}',
    ],
)
def test_json_that_means_nothing_is_refused(line: bytes) -> None:
    with pytest.raises(Invalid):
        parse_json(line)


@given(pieces=st.lists(st.binary(max_size=10).map(lambda b: b.replace(b"\r", b"")), max_size=8))
def test_lines_are_the_same_however_they_arrive(pieces: list[bytes]) -> None:
    arriving = iter([piece for piece in pieces if piece])
    read = [line for lines in read_lines(lambda: next(arriving, b"")) for line in lines]

    whole = b"".join(pieces)
    expected = whole.split(b"\n")
    assert read == (expected if expected[-1] else expected[:-1])


def test_lines_that_come_together_leave_together_and_wait_for_nothing() -> None:
    arriving = iter([b"a\r\nb\nc", b"d\n"])
    lines = read_lines(lambda: next(arriving, b""))

    assert next(lines) == [b"a", b"b"]
    assert next(lines) == [b"cd"]


def test_a_line_that_never_ends_is_refused() -> None:
    with pytest.raises(Invalid, match="longer"):
        list(read_lines(lambda: bytes(LINE_BYTES_MAX)))
