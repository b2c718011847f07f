"""Which columns a DataFrame may have to be written, and what each becomes. Pure.

    value      binary or string                          required
    key        binary or string                          null: no key
    headers    array<struct<key:string,value:binary>>    null: none
    topic      string                                    required without option topic, which wins
    partition  int                                       null: by the key
    timestamp  timestamp                                 null, or no column: the time of writing

Those of Spark's Kafka sink, and `timestamp`. Names in any case. A column that is none of these
would be lost in silence, so it is refused.
"""

from collections.abc import Iterable, Mapping

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


def check_written_columns(
    given: Iterable[tuple[str, str]], *, has_topic: bool
) -> Mapping[str, int]:
    """Where each column stands, from (name, Spark's simple string of the type) of a DataFrame.

    `has_topic`: whether the option names the topic. Raises `Invalid` for what cannot be written.
    """
    places: dict[str, int] = {}
    for place, (name, kind) in enumerate(given):
        column = name.lower()
        if column not in TYPES:
            raise Invalid(
                f"no record has a column of this name: {name} {kind}; a row may have "
                f"{', '.join(TYPES)}: select those, or drop this one"
            )
        if kind not in TYPES[column]:
            raise Invalid(
                f"column {name} is of another type: {kind}; cast it to {' or '.join(TYPES[column])}"
            )
        if column in places:
            raise Invalid(f"column {name} is there twice")
        places[column] = place
    if "value" not in places:
        raise Invalid("column value is missing: the bytes of the record, binary or string")
    if not has_topic and "topic" not in places:
        raise Invalid("no topic: give option topic, or a column topic")
    return places
