"""Columns: those of Spark's Kafka source, or what a given schema chooses of them."""

import pytest

from logstore.errors import Invalid
from spark_source.planning.schema import TYPES, check_columns, schema_ddl


def test_the_schema_is_that_of_sparks_kafka_source() -> None:
    assert schema_ddl(headers=False) == (
        "key binary, value binary, topic string, partition int, offset bigint, "
        "timestamp timestamp, timestampType int"
    )
    assert schema_ddl(headers=True).endswith(", headers array<struct<key:string,value:binary>>")


def test_a_schema_may_choose_columns_in_any_order() -> None:
    assert check_columns([("offset", "bigint"), ("key", "binary")]) == ("offset", "key")
    assert check_columns(TYPES.items()) == tuple(TYPES)


@pytest.mark.parametrize("column", [("Offset", "bigint"), ("offset", "int"), ("size", "int")])
def test_other_columns_are_refused_with_those_there_are(column: tuple[str, str]) -> None:
    with pytest.raises(Invalid, match=f"no column: {column[0]} {column[1]}; .* key binary"):
        check_columns([column])


def test_no_column_at_all_is_refused() -> None:
    with pytest.raises(Invalid, match="without columns"):
        check_columns([])
