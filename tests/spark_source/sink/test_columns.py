"""Columns of a DataFrame that is written: which there may be, of which types."""

import pytest

from logstore.errors import Invalid
from spark_source.planning.schema import schema_ddl
from spark_source.sink.columns import TYPES, check_written_columns


def test_every_column_of_every_type_is_taken() -> None:
    for number in range(2):
        given = [(name, kinds[min(number, len(kinds) - 1)]) for name, kinds in TYPES.items()]
        assert check_written_columns(given, has_topic=False).places == {
            name: place for place, name in enumerate(TYPES)
        }


def test_names_are_taken_in_any_case() -> None:
    found = check_written_columns([("KEY", "string"), ("Value", "binary")], has_topic=True)
    assert found == ({"key": 0, "value": 1}, [])


@pytest.mark.parametrize(
    "given, has_topic, text",
    [
        ([("key", "binary")], True, "column value is missing"),
        ([("value", "binary")], False, "no topic: give option topic, or a column topic"),
        ([("value", "int")], True, "column value is of another type: int; cast it to binary or"),
        ([("value", "binary"), ("VALUE", "binary")], True, "column VALUE is there twice"),
        ([("value", "binary"), ("id", "bigint")], True, "no record has a column of this name: id"),
        ([("value", "binary"), ("offset", "string")], True, "of this name: offset string"),
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


def test_all_that_is_wrong_is_named_at_once() -> None:
    given = [("key", "int"), ("id", "bigint"), ("KEY", "string"), ("when", "date")]
    with pytest.raises(Invalid) as error:
        check_written_columns(given, has_topic=False)
    for text in (
        "column key is of another type: int; cast it to binary or string",
        "no record has a column of this name: id bigint, when date;",
        "column KEY is there twice",
        "column value is missing",
        "no topic: give option topic",
    ):
        assert text in str(error.value)


@pytest.mark.parametrize("headers", [False, True])
def test_rows_of_a_topic_go_straight_back_without_what_a_row_cannot_have(headers: bool) -> None:
    fields = [field.split(" ", 1) for field in schema_ddl(headers=headers).split(", ")]
    found = check_written_columns([(name, kind) for name, kind in fields], has_topic=True)

    assert found.left_out == ["offset", "timestampType"]
    assert found.places.keys() == {name for name, _ in fields} - {"offset", "timestampType"}
