"""Which columns a DataFrame may have to be written, and what each becomes. Pure.

    value      binary or string                          required
    key        binary or string                          null: no key
    headers    array<struct<key:string,value:binary>>    null: none
    topic      string                                    required without option topic, which wins
    partition  int                                       null: by the key
    timestamp  timestamp                                 null, or no column: the time of writing

Those of Spark's Kafka sink, and `timestamp`. Names in any case. A column that is none of these
would be lost in silence, so it is refused; but for those that only a row of a topic has.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from logstore.errors import Invalid

_TEXT = ("binary", "string")
TYPES: Mapping[str, tuple[str, ...]] = {
    "value": _TEXT,
    "key": _TEXT,
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}


OF_THE_SOURCE: Mapping[str, str] = {"offset": "bigint", "timestampType": "int"}
"""Columns of rows that were read from a topic, which its leader gives to each row that is written:
rows written straight back have them. Of any other type they are someone's own, and refused."""

_SOURCE_TYPES = {name.lower(): kind for name, kind in OF_THE_SOURCE.items()}


class WrittenColumns(NamedTuple):
    places: Mapping[str, int]
    """Where each column of a row stands."""
    left_out: Sequence[str]
    """Those of `OF_THE_SOURCE`, as they are spelt."""


def check_written_columns(given: Iterable[tuple[str, str]], *, has_topic: bool) -> WrittenColumns:
    """Where each column stands, from (name, Spark's simple string of the type) of a DataFrame.

    `has_topic`: whether the option names the topic. Raises `Invalid`, which names all that is
    wrong, for what cannot be written.
    """
    places: dict[str, int] = {}
    left_out: list[str] = []
    wrong: list[str] = []
    unknown: list[str] = []
    for place, (name, kind) in enumerate(given):
        column = name.lower()
        if _SOURCE_TYPES.get(column) == kind:
            left_out.append(name)
        elif column not in TYPES:
            unknown.append(f"{name} {kind}")
        elif column in places:
            wrong.append(f"column {name} is there twice")
        else:
            places[column] = place
            if kind not in TYPES[column]:
                wrong.append(
                    f"column {name} is of another type: {kind}; cast it to "
                    f"{' or '.join(TYPES[column])}"
                )
    if unknown:
        wrong.append(
            f"no record has a column of this name: {', '.join(unknown)}; a row may have "
            f"{', '.join(TYPES)}: select those"
        )
    if "value" not in places:
        wrong.append("column value is missing: the bytes of the record, binary or string")
    if not has_topic and "topic" not in places:
        wrong.append("no topic: give option topic, or a column topic")
    if wrong:
        raise Invalid(". ".join(wrong))
    return WrittenColumns(places, left_out)
