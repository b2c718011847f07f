"""Tables that stay bytes behave as the list and the dictionary of their lines."""

import struct
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.formats.packed_lines import PackedLines, PackedMapping

LINE = struct.Struct(">4siq")
LINES = st.lists(
    st.tuples(st.binary(min_size=4, max_size=4), st.integers(0, 3), st.integers(0, 99)),
    unique_by=lambda line: line[:2],
    max_size=20,
).map(sorted)


def packed(lines: list[tuple[bytes, int, int]]) -> bytes:
    return b"".join(LINE.pack(*line) for line in lines)


@given(LINES, st.slices(20))
def test_lines_are_a_list_of_their_values(lines: list[tuple[bytes, int, int]], some: slice) -> None:
    found = PackedLines(LINE, packed(lines), tuple)

    assert list(found) == lines
    assert [found[number] for number in range(len(found))] == lines
    assert [found[number] for number in range(-len(lines), 0)] == lines
    assert found[some] == lines[some]
    for number in (len(lines), -len(lines) - 1):
        with pytest.raises(IndexError):
            found[number]


@given(LINES, st.tuples(st.binary(min_size=4, max_size=4), st.integers(0, 3)))
def test_a_mapping_is_a_dictionary_of_its_lines(
    lines: list[tuple[bytes, int, int]], other: tuple[bytes, int]
) -> None:
    known = {line[:2]: line[2] for line in lines}
    found = PackedMapping(LINE, packed(lines), lambda line: line[:2], lambda line: int(line[2]))

    assert (len(found), list(found), dict(found.items())) == (len(known), list(known), known)
    assert {key: found[key] for key in known} == known
    assert found.get(other) == known.get(other)
    assert (other in found) == (other in known)


def test_bytes_that_are_not_whole_lines_are_refused() -> None:
    with pytest.raises(struct.error, match="not whole lines"):
        PackedLines(LINE, bytes(LINE.size + 1), tuple)


def test_a_line_is_made_when_it_is_asked_for_and_no_sooner() -> None:
    made = []

    def make(line: tuple[bytes, int, int]) -> int:
        made.append(line[1])
        return line[1]

    found = PackedLines(LINE, packed([(b"abcd", number, 0) for number in range(9)]), make)
    assert (found[4], made) == (4, [4])
    assert list(takewhile(lambda number: number < 2, found)) == [0, 1]
    assert made == [4, 0, 1, 2]
