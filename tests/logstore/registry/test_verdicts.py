"""What conditions mean, against a second telling of the same rules."""

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import ConditionFailed, Corrupt
from logstore.ports.registry import WRITE_ID, Comparison, Condition, RowAbsent, RowExists, Value
from logstore.registry.row_json import decode_row, encode_row
from logstore.registry.verdicts import after_put, after_update, check_delete, holds

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
VALUES = st.one_of(TEXT, st.integers(-(2**63), 2**63 - 1), st.binary(max_size=10))
CLOSE_VALUES = st.sampled_from(["", "a", "b", "\uffff", "\U00010000", -1, 0, 1, b"", b"a", b"\xff"])
ROWS = st.dictionaries(st.sampled_from(["a", "b", "c", WRITE_ID]), CLOSE_VALUES)
TERMS = st.one_of(
    st.just(RowAbsent()),
    st.just(RowExists()),
    st.builds(
        Comparison,
        st.sampled_from(["a", "b", "d"]),
        st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
        CLOSE_VALUES,
    ),
)
OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def comparable(value: Value) -> tuple[str, Value]:
    """The type, and the value as DynamoDB orders it: strings by their bytes."""
    return type(value).__name__, value.encode() if isinstance(value, str) else value


@given(row=st.none() | ROWS, term=TERMS)
def test_a_term_compares_bytes_of_one_type(row: dict[str, Value] | None, term: Condition) -> None:
    if isinstance(term, Comparison):
        expected = False
        if row is not None and term.attribute in row:
            found, asked = comparable(row[term.attribute]), comparable(term.value)
            expected = found[0] == asked[0] and OPERATORS[term.operator](found[1], asked[1])
    else:
        expected = (row is None) == isinstance(term, RowAbsent)
    assert holds(row, term) == expected


@given(row=st.none() | ROWS, new=ROWS, conditions=st.lists(TERMS, max_size=3))
def test_a_write_happens_if_and_only_if_all_terms_hold(
    row: dict[str, Value] | None, new: dict[str, Value], conditions: list[Condition]
) -> None:
    before = None if row is None else dict(row)
    if all(holds(row, term) for term in conditions):
        assert after_put(row, new, conditions, "w") == {**new, WRITE_ID: "w"}
        if row is not None:
            assert after_update(row, new, conditions, "w") == {**row, **new, WRITE_ID: "w"}
            check_delete(row, conditions)
    else:
        with pytest.raises(ConditionFailed) as failed:
            after_put(row, new, conditions, "w")
        assert failed.value.current == row
        with pytest.raises(ConditionFailed):
            after_update(row, new, conditions, "w")
        with pytest.raises(ConditionFailed):
            check_delete(row, conditions)
    assert row == before


@given(row=st.dictionaries(TEXT, VALUES, max_size=6))
def test_a_row_survives_json(row: dict[str, Value]) -> None:
    decoded = decode_row(encode_row(row))
    assert decoded == row
    assert {name: type(value) for name, value in decoded.items()} == {
        name: type(value) for name, value in row.items()
    }


def test_the_stored_form_of_a_row_does_not_change() -> None:
    row: dict[str, Value] = {"wid": "w1", "n": -(2**63), "s": 'a"\u00e9', "b": b"\x00\xff"}
    text = '{"b":{"base64":"AP8="},"n":-9223372036854775808,"s":"a\\"\\u00e9","wid":"w1"}'
    assert encode_row(row) == text
    assert decode_row(text) == row


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "1", '{"a":1.5}', '{"a":null}', '{"a":true}', '{"a":[1]}', '{"a":{}}'),
        *('{"a":{"base64":1}}', '{"a":{"base64":"!"}}', '{"a":{"base64":"","x":1}}'),
    ],
)
def test_what_no_row_encodes_to_is_corrupt(text: str) -> None:
    with pytest.raises(Corrupt):
        decode_row(text)
