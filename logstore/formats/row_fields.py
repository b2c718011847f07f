"""Attributes of registry rows, checked when read: a missing or odd one is `Corrupt`. Pure."""

import json
from typing import Any, TypeVar

from logstore.errors import Corrupt
from logstore.ports.registry import Row, Value

V = TypeVar("V", str, int, bytes)


def field_of(row: Row, name: str, kind: type[V], default: V | None = None) -> V:
    value: Value | None = row.get(name, default)
    if not isinstance(value, kind):
        raise Corrupt(f"registry row lacks an attribute: name={name} type={kind.__name__}")
    return value


def id_of(row: Row, name: str) -> bytes:
    """16 bytes, spelt as hexadecimal digits."""
    try:
        value = bytes.fromhex(field_of(row, name, str))
    except ValueError as error:
        raise Corrupt(f"registry row with a bad id: name={name}") from error
    if len(value) != 16:
        raise Corrupt(f"registry row with a bad id: name={name} bytes={len(value)}")
    return value


def json_of(row: Row, name: str) -> Any:
    try:
        return json.loads(field_of(row, name, str))
    except ValueError as error:
        raise Corrupt(f"registry row with bad JSON: name={name}") from error
