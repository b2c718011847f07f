"""Rows as items, and terms as expressions; that they mean the same is the contract suite's."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Corrupt, Invalid
from logstore.ports.registry import Comparison, Condition, RowAbsent, RowExists, Value
from logstore.registry.dynamodb_json.items import Expressions, decode_item, encode_item

NAMES = st.text(min_size=1, max_size=8).filter(lambda name: name not in ("pk", "sk", "wid"))
VALUES = st.one_of(st.text(max_size=9), st.integers(-(2**63), 2**63 - 1), st.binary(max_size=9))


@given(st.dictionaries(NAMES, VALUES, max_size=6))
def test_a_row_comes_back_from_its_item(row: dict[str, Value]) -> None:
    item = encode_item("p", "s", row, "w")
    assert (item["pk"], item["sk"]) == ({"S": "p"}, {"S": "s"})
    assert decode_item(item) == ("s", {**row, "wid": "w"})


@pytest.mark.parametrize(
    "value",
    [{"N": "1.5"}, {"N": "x"}, {"BOOL": True}, {"NULL": True}, {"L": []}, {"SS": ["a"]}, {}],
)
def test_what_no_write_of_ours_leaves_is_corrupt(value: dict[str, Any]) -> None:
    with pytest.raises(Corrupt):
        decode_item({"pk": {"S": "p"}, "sk": {"S": "s"}, "a": value})


@pytest.mark.parametrize("sk", [{"N": "1"}, {}])
def test_an_item_without_a_text_for_a_sort_key_is_corrupt(sk: dict[str, str]) -> None:
    with pytest.raises(Corrupt):
        decode_item({"pk": {"S": "p"}, "sk": sk})


def test_terms_become_one_condition_with_placeholders() -> None:
    expressions = Expressions()
    conditions: list[Condition] = [
        Comparison("n", "=", 5),
        Comparison("t", "!=", "x"),
        RowExists(),
        RowAbsent(),
    ]
    assert expressions.condition(conditions, needs_row=True) == (
        "attribute_exists(#0) AND #1 = :0 AND attribute_type(#2, :2) AND #2 <> :1"
        " AND attribute_exists(#0) AND attribute_not_exists(#0)"
    )
    assert expressions.updates({"n": 6}, "w") == "SET #1 = :3, #3 = :4"
    assert expressions.placeholders() == {
        "ExpressionAttributeNames": {"#0": "pk", "#1": "n", "#2": "t", "#3": "wid"},
        "ExpressionAttributeValues": {
            ":0": {"N": "5"},
            ":1": {"S": "x"},
            ":2": {"S": "S"},
            ":3": {"N": "6"},
            ":4": {"S": "w"},
        },
    }


def test_nothing_asked_is_no_condition_and_no_placeholders() -> None:
    expressions = Expressions()
    assert expressions.condition([], needs_row=False) == ""
    assert expressions.placeholders() == {}


@pytest.mark.parametrize("attribute", ["pk", "sk", ""])
def test_no_row_has_an_attribute_named_like_its_keys(attribute: str) -> None:
    condition = Expressions().condition([Comparison(attribute, "=", "p")], needs_row=False)
    assert condition == "attribute_exists(#0) AND attribute_not_exists(#0)"


def test_a_term_with_a_value_that_no_row_can_hold_is_refused() -> None:
    with pytest.raises(Invalid):
        Expressions().condition([Comparison("a", "=", 2**63)], needs_row=False)
