"""Filters of a query on the rows it reads: what they leave of a plan. Pure.

Spark hands a source the filters of a query, joined by AND, once it is asked to
(`spark.sql.python.filterPushdown.enabled`), and applies all of them to the rows again. So a plan
may keep too much and never too little: what is not understood narrows nothing.

    topic, partition    partitions that no filter excludes
    offset              the interval that all filters leave
    timestamp           the beginning alone: times do not grow with offsets, and what comes before
                        the first record of a time is older than it, all of it
"""

import operator
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from spark_source.planning.offsets import Position, TopicPosition

EQUAL, BELOW, UP_TO, ABOVE, FROM = "=", "<", "<=", ">", ">="
TOPIC, PARTITION, OFFSET = "topic", "partition", "offset"
TIME, TIME_MS = "timestamp", "timestamp_ms"
_TYPES = {TOPIC: str, PARTITION: int, OFFSET: int, TIME: datetime, TIME_MS: int}
_SIGNS = {
    "EqualTo": EQUAL,
    "EqualNullSafe": EQUAL,
    "In": EQUAL,
    "LessThan": BELOW,
    "LessThanOrEqual": UP_TO,
    "GreaterThan": ABOVE,
    "GreaterThanOrEqual": FROM,
}
"""By the name of Spark's class for a filter; releases have different ones."""
_COMPARED = {BELOW: operator.lt, UP_TO: operator.le, ABOVE: operator.gt, FROM: operator.ge}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Condition(NamedTuple):
    """`column` is one of `values` where the sign is `EQUAL`; else it is compared with the one."""

    column: str
    sign: str
    values: tuple[Any, ...]


def conditions_of(filters: Iterable[object]) -> tuple[Condition, ...]:
    """Of Spark's filters (objects with `attribute`, a path, and `value`), those that are known."""
    return tuple(found for one in filters if (found := _condition(one)) is not None)


def _condition(of_spark: object) -> Condition | None:
    kind = type(of_spark).__name__
    path: tuple[str, ...] = getattr(of_spark, "attribute", ())
    value: Any = getattr(of_spark, "value", None)
    if kind not in _SIGNS or len(path) != 1:
        return None
    # A null is equal to nothing, or to another null: these columns have none.
    values = tuple(one for one in value if one is not None) if kind == "In" else (value,)
    wanted = _TYPES.get(path[0])
    if wanted is None or not all(_is_a(wanted, one) for one in values):
        return None
    return Condition(path[0], _SIGNS[kind], values)


def _is_a(wanted: type, value: object) -> bool:
    if isinstance(value, datetime):
        return wanted is datetime and value.tzinfo is not None
    return isinstance(value, wanted) and not isinstance(value, bool)


def least_time_ms(conditions: Sequence[Condition]) -> int | None:
    """No wanted record is older, in ms since 1970; None: any may be wanted."""
    least = [
        min(_time_ms(value) for value in one.values)
        for one in conditions
        if one.column in (TIME, TIME_MS) and one.sign in (EQUAL, ABOVE, FROM) and one.values
    ]
    return max(least, default=None)


def _time_ms(value: datetime | int) -> int:
    """Rounded down: a record of that millisecond may be what is asked for."""
    return (value - _EPOCH) // timedelta(milliseconds=1) if isinstance(value, datetime) else value


def narrow(
    begin: Position, end: Position, conditions: Sequence[Condition]
) -> tuple[Position, Position]:
    """Both, of the same partitions, without partitions and offsets that `conditions` exclude."""
    first, until = _interval(conditions)
    begins: dict[str, TopicPosition] = {}
    ends: dict[str, TopicPosition] = {}
    for name, topic in end.items():
        if not _holds(conditions, TOPIC, name):
            continue
        kept = [number for number in topic.next if _holds(conditions, PARTITION, number)]
        since = {number: max(begin[name].next[number], first) for number in kept}
        stop = {n: topic.next[n] if until is None else min(topic.next[n], until) for n in kept}
        begins[name] = TopicPosition(topic.topic_id, since)
        ends[name] = TopicPosition(topic.topic_id, stop)
    return begins, ends


def later(begin: Position, end: Position, first: Mapping[tuple[str, int], int | None]) -> Position:
    """`begin`, from `first` on, by topic and partition; None: at `end`, nothing is that new."""
    return {
        name: TopicPosition(
            topic.topic_id,
            {
                number: end[name].next[number]
                if (offset := first.get((name, number), since)) is None
                else max(since, offset)
                for number, since in topic.next.items()
            },
        )
        for name, topic in begin.items()
    }


def _holds(conditions: Sequence[Condition], column: str, value: Any) -> bool:
    return all(_is_true(one, value) for one in conditions if one.column == column)


def _is_true(condition: Condition, value: Any) -> bool:
    if condition.sign == EQUAL:
        return value in condition.values
    (limit,) = condition.values
    return bool(_COMPARED[condition.sign](value, limit))


def _interval(conditions: Sequence[Condition]) -> tuple[int, int | None]:
    """[first, until) of the offsets that all conditions leave."""
    first, until = 0, None
    for one in conditions:
        if one.column != OFFSET:
            continue
        if one.sign in (EQUAL, ABOVE, FROM):
            first = max(first, min(one.values, default=0) + (one.sign == ABOVE))
        if one.sign in (EQUAL, BELOW, UP_TO):
            limit = max(one.values, default=-1) + (one.sign != BELOW)
            until = limit if until is None else min(until, limit)
    return first, until
