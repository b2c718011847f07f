"""Columns of the source: those of Spark's Kafka source, or the ones a given schema asks for. Pure.

Beside these a schema may ask for what a topic's table has (`logstore.history.forms.columns`), so
that rows from the log and rows from the table can stand in one relation.

Spark never passes a Python source the columns that a query uses. A query that needs few names them:
`spark.read.schema("offset bigint").format("logstore")` reads nothing else.
"""

from collections.abc import Iterable

from logstore.errors import Invalid

HEADERS = "headers"
TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    HEADERS: "array<struct<key:string,value:binary>>",
    "timestamp_ms": "bigint",
    "leader_epoch": "int",
    "raw_batch": "binary",
}
KAFKA_COLUMNS = (
    *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType"),
    HEADERS,
)
TABLE_COLUMNS = (
    *("partition", "offset", "timestamp", "timestamp_ms", "timestampType", "key", "value"),
    *(HEADERS, "leader_epoch", "raw_batch"),
)
"""Of a topic's table, in its order."""


def schema_ddl(*, headers: bool) -> str:
    return ddl_of(name for name in KAFKA_COLUMNS if headers or name != HEADERS)


def ddl_of(columns: Iterable[str]) -> str:
    return ", ".join(f"{name} {TYPES[name]}" for name in columns)


def types_of(columns: Iterable[str]) -> list[tuple[str, str]]:
    """(name, type) of columns; an unknown one keeps its name, for `check_columns` to refuse."""
    return [(name, TYPES.get(name, "")) for name in columns]


def check_columns(asked: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Names of a given schema's columns, from (name, Spark's simple string of the type).

    Raises `Invalid` for one that the source does not have.
    """
    names = []
    for name, kind in asked:
        if TYPES.get(name) != kind:
            raise Invalid(
                f"the source has no column: {name} {kind}; a schema may choose among: "
                f"{ddl_of(TYPES)}; other types come by a cast in the query"
            )
        if name in names:
            raise Invalid(f"a schema names a column twice: {name}")
        names.append(name)
    if not names:
        raise Invalid(f"a schema without columns; choose among: {ddl_of(TYPES)}")
    return tuple(names)
