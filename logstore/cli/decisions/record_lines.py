"""Records as lines of text, for `logstore produce` and `logstore consume`. Pure.

value                      plain; with a separator `key:value`, a line without it has no key
{"key": …, "value": …}     JSON: text, null, or {"base64": "…"}; headers as an object of such
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from logstore.cli.decisions.printable import json_text
from logstore.errors import Invalid

FIELDS = {"key", "value", "headers", "partition", "timestamp", "topic", "offset"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLine:
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = field(default=())
    partition: int | None = None
    timestamp: int | None = None


def parse_plain(line: bytes, separator: bytes | None) -> RecordLine:
    if separator is None or separator not in line:
        return RecordLine(value=line)
    key, _, value = line.partition(separator)
    return RecordLine(key=key, value=value)


def parse_json(line: bytes) -> RecordLine:
    """Raises `Invalid`. Takes what `format_json` wrote; topic and offset are passed over."""
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise Invalid(f"not JSON: {error}") from None
    if not isinstance(fields, dict) or not fields.keys() <= FIELDS:
        raise Invalid(f"not an object of {', '.join(sorted(FIELDS))}: {line[:80]!r}")
    headers = {} if fields.get("headers") is None else fields["headers"]
    if not isinstance(headers, dict):
        raise Invalid("headers are not an object")
    return RecordLine(
        key=_bytes(fields.get("key"), "key"),
        value=_bytes(fields.get("value"), "value"),
        headers=tuple((name, _bytes(value, name)) for name, value in headers.items()),
        partition=_number(fields, "partition"),
        timestamp=_number(fields, "timestamp"),
    )


def format_plain(key: bytes | None, value: bytes | None, separator: bytes | None) -> bytes:
    """A record without a value is an empty line."""
    if separator is None or key is None:
        return value or b""
    return key + separator + (value or b"")


def format_json(
    topic: str,
    partition: int,
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: Mapping[str, bytes | None],
) -> bytes:
    """One line."""
    record: dict[str, Any] = {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": timestamp,
        "key": _text(key),
        "value": _text(value),
    }
    if headers:
        record["headers"] = {name: _text(data) for name, data in headers.items()}
    return json_text(record).encode()


def _text(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _bytes(value: Any, name: str) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, dict) and value.keys() == {"base64"}:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (TypeError, binascii.Error):
            raise Invalid(f"bad base64: field={name}") from None
    raise Invalid(f'neither text, null, nor {{"base64": "…"}}: field={name}')


def _number(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise Invalid(f"not a whole number: field={name}")
