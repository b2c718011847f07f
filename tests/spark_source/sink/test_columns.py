"""Columns of a DataFrame that is written: which there may be, of which types."""

import pytest

from logstore.errors import Invalid
from spark_source.sink.columns import TYPES, check_written_columns


def test_every_column_of_every_type_is_taken() -> None:
    for number in range(2):
        given = [(name, kinds[min(number, len(kinds) - 1)]) for name, kinds in TYPES.items()]
        assert check_written_columns(given, has_topic=False) == {
            name: place for place, name in enumerate(TYPES)
        }


def test_names_are_taken_in_any_case() -> None:
    assert check_written_columns([("KEY", "string"), ("Value", "binary")], has_topic=True) == {
        "key": 0,
        "value": 1,
    }


@pytest.mark.parametrize(
    "given, has_topic, text",
    [
        ([("key", "binary")], True, "column value is missing"),
        ([("value", "binary")], False, "no topic: give option topic, or a column topic"),
        ([("value", "int")], True, "column value is of another type: int; cast it to binary or"),
        ([("value", "binary"), ("VALUE", "binary")], True, "column VALUE is there twice"),
        ([("value", "binary"), ("offset", "bigint")], True, "no record has a column of this name"),
        ([("value", "binary"), ("partition", "bigint")], True, "partition is of another type"),
        ([("value", "binary"), ("timestamp", "timestamp_ntz")], True, "cast it to timestamp"),
        ([("value", "binary"), ("headers", "map<string,string>")], True, "headers is of another"),
    ],
)
def test_what_cannot_be_written_is_refused(
    given: list[tuple[str, str]], has_topic: bool, text: str
) -> None:
    with pytest.raises(Invalid, match=text):
        check_written_columns(given, has_topic=has_topic)
