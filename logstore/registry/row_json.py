"""A row as text: JSON that a person can read in the database file.

    {"leader": 3, "url": "s3://…", "ends": {"base64": "AAECAw=="}, "wid": "…"}

Strings and integers are JSON's own, bytes an object with one member. Names come sorted, so equal
rows are equal text.
"""

import json
from base64 import b64decode, b64encode

from logstore.errors import Corrupt
from logstore.ports.registry import Row, Value

_BYTES = "base64"


def encode_row(row: Row) -> str:
    encoded = {
        name: {_BYTES: b64encode(value).decode()} if isinstance(value, bytes) else value
        for name, value in row.items()
    }
    return json.dumps(encoded, sort_keys=True, separators=(",", ":"))


def decode_row(text: str) -> dict[str, Value]:
    """Raises `Corrupt` if `text` is not what `encode_row` writes."""
    try:
        row = json.loads(text)
        if isinstance(row, dict):
            return {name: _decode_value(value) for name, value in row.items()}
    except (ValueError, TypeError):
        pass
    raise Corrupt(f"a row of the registry cannot be decoded text={text[:200]!r}")


def _decode_value(value: object) -> Value:
    match value:
        case bool():
            raise ValueError("a row cannot hold a boolean")
        case str() | int():
            return value
        case {"base64": str(text), **others} if not others:
            return b64decode(text, validate=True)
        case _:
            raise ValueError("not a value of a row")
