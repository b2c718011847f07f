"""Effect of a conditional write on one row: the registry's semantics, in pure functions.

Back ends that decide for themselves (memory, SQLite) call `after_put`, `after_update` and
`check_delete`; one that leaves the decision to a server (DynamoDB) checks what it sends with
`check_key` and `check_row`, so that all of them accept and refuse the same.

Values are compared as DynamoDB does: only with their own type; strings by their UTF-8 bytes (which
is Python's order of code points), bytes as unsigned.
"""

from collections.abc import Mapping, Sequence

from logstore.errors import ConditionFailed, Invalid
from logstore.ports.registry import (
    WRITE_ID,
    Comparison,
    Condition,
    Row,
    RowAbsent,
    RowExists,
    Value,
)

KEY_BYTES_MAX = 1024  # DynamoDB's limit for a sort key
ROW_BYTES_MAX = 400_000  # names and values; DynamoDB takes 400 KiB with its keys
INT_MIN, INT_MAX = -(2**63), 2**63 - 1

_RESERVED = ("pk", "sk")


def after_put(
    current: Row | None, row: Row, conditions: Sequence[Condition], write_id: str
) -> dict[str, Value]:
    """The row as `put_if` leaves it. Raises `ConditionFailed`."""
    _check_terms(current, conditions)
    return {**row, WRITE_ID: write_id}


def after_update(
    current: Row | None, sets: Row, conditions: Sequence[Condition], write_id: str
) -> dict[str, Value]:
    """The row as `update_if` leaves it. Raises `ConditionFailed`, `Invalid` if it grew too big."""
    if current is None:
        raise ConditionFailed("no such row", None)
    _check_terms(current, conditions)
    updated = {**current, **sets, WRITE_ID: write_id}
    check_row(updated)
    return updated


def check_delete(current: Row | None, conditions: Sequence[Condition]) -> None:
    """Raises `ConditionFailed` unless `delete_if` may remove the row."""
    if current is None:
        raise ConditionFailed("no such row", None)
    _check_terms(current, conditions)


def holds(row: Row | None, term: Condition) -> bool:
    match term:
        case RowAbsent():
            return row is None
        case RowExists():
            return row is not None
        case Comparison():
            return row is not None and _compare(row.get(term.attribute), term)


def check_key(pk: str, sk: str) -> None:
    """Raises `Invalid` unless (pk, sk) may name a row."""
    for name, part in (("pk", pk), ("sk", sk)):
        if not 0 < _utf8_length(name, part) <= KEY_BYTES_MAX:
            raise Invalid(f"not a row key {name}={part!r}")


def check_query(pk: str, prefix: str, after: str | None, limit: int) -> None:
    """Raises `Invalid` unless such a page of rows may be asked for."""
    check_key(pk, "any")
    _utf8_length("prefix", prefix)
    _utf8_length("after", after or "")
    if limit < 1:
        raise Invalid(f"a page has at least one row limit={limit}")


def check_row(row: Mapping[str, object]) -> None:
    """Raises `Invalid` unless every attribute can be stored, and the row is not too big."""
    size_bytes = 0
    for name, value in row.items():
        if not name or name in _RESERVED:
            raise Invalid(f"not an attribute name attribute={name!r}")
        size_bytes += _utf8_length("attribute", name) + _value_bytes(name, value)
    if size_bytes > ROW_BYTES_MAX:
        raise Invalid(f"row too big size_bytes={size_bytes} max_bytes={ROW_BYTES_MAX}")


def _check_terms(current: Row | None, conditions: Sequence[Condition]) -> None:
    for term in conditions:
        if not holds(current, term):
            raise ConditionFailed(f"condition does not hold term={term}", current)


def _compare(stored: Value | None, condition: Comparison) -> bool:
    asked = condition.value
    if isinstance(stored, str) and isinstance(asked, str):
        return _ordered((stored > asked) - (stored < asked), condition)
    if isinstance(stored, int) and isinstance(asked, int):
        return _ordered((stored > asked) - (stored < asked), condition)
    if isinstance(stored, bytes) and isinstance(asked, bytes):
        return _ordered((stored > asked) - (stored < asked), condition)
    return False


def _ordered(sign: int, condition: Comparison) -> bool:
    match condition.operator:
        case "=":
            return sign == 0
        case "!=":
            return sign != 0
        case "<":
            return sign < 0
        case "<=":
            return sign <= 0
        case ">":
            return sign > 0
        case ">=":
            return sign >= 0


def _value_bytes(name: str, value: object) -> int:
    if isinstance(value, str):
        return _utf8_length(name, value)
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, int) and not isinstance(value, bool) and INT_MIN <= value <= INT_MAX:
        return 8
    raise Invalid(f"not a str, bytes or 64-bit int attribute={name} value={value!r}")


def _utf8_length(name: str, text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise Invalid(f"not Unicode text {name}={text!r}") from None
