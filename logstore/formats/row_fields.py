"""Rows of the registry: where each is, and how its attributes are stored and checked. Pure.

    pk                sk                      row
    cluster           cluster                 ClusterRow        in `cluster_row`, and so on
    broker            <id>                    BrokerRow
    number            <id>                    NumberRow
    chain             <epoch, 20 digits>      ChainRow
    topic             <name>                  TopicRow
    partition/<0-f>   <topic id>/<n>          PartitionRow, spread by topic id and n
    lease             <name>                  LeaseRow
    change            feed                    FeedRow
    table             <topic id>              TableRow          the table pointer
    compaction        <run>                   CompactionRow
    config            broker=<id>             ConfigRow         of all brokers: `broker=`
    quota             <0-f>                   QuotaRow          spread by entity
    acl               <0-f>                   AclRow            spread by principal and pattern
    user              <00-ff>                 UserRow           spread by name
    secret            cluster                 SecretRow
    trim              <topic id>              see `protocol.rows.verified_versions`

A row is a dataclass, each of its fields an attribute of the same name. Integers, strings and
enumerations are stored as they are; an annotation declares any other form:

    partitions: int
    configs: Annotated[Mapping[str, str], JSON_TEXTS]

Decoding a row that lacks an attribute, or has one of another type, is `Corrupt`; a field with a
default is one that came later, and may be missing.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from logstore.errors import Corrupt
from logstore.ports.registry import Row, Value

V = TypeVar("V", str, int, bytes)
T = TypeVar("T")


class Form(NamedTuple):
    """How a value is stored.

    `decode` may raise `Corrupt`, `ValueError`, `TypeError` or `AttributeError`.
    """

    kind: type[str] | type[int] | type[bytes]
    encode: Callable[[Any], Value]
    decode: Callable[[Any], Any]
    name: str = ""
    """Of the attribute, if it is not the field's."""
    is_kept: bool = True
    """Whether the attribute is written when it has its default."""
    is_secret: bool = False
    """Whether errors leave its value out."""


class _Attribute(NamedTuple):
    field: str
    name: str
    form: Form
    default: Callable[[], Any] | None


def encode_row(value: Any) -> Row:
    row: dict[str, Value] = {}
    for field_name, name, form, default in _attributes(type(value)):
        attribute = getattr(value, field_name)
        if form.is_kept or default is None or attribute != default():
            row[name] = form.encode(attribute)
    return row


def decode_row(kind: type[T], row: Row) -> T:
    """Raises `Corrupt`."""
    values = {}
    for field_name, name, form, default in _attributes(kind):
        if default is not None and name not in row:
            values[field_name] = default()
            continue
        attribute = row.get(name)
        if not isinstance(attribute, form.kind):
            raise _lacks(name, form.kind)
        try:
            values[field_name] = form.decode(attribute)
        except (AttributeError, TypeError, ValueError) as error:
            if form.is_secret:  # nor does the cause show it
                raise Corrupt(f"{kind.__name__} with a bad attribute: {name}") from None
            raise Corrupt(f"{kind.__name__} with a bad attribute: {name}={attribute!r}") from error
    return kind(**values)


def field_of(row: Row, name: str, kind: type[V], default: V | None = None) -> V:
    value: Value | None = row.get(name, default)
    if not isinstance(value, kind):
        raise _lacks(name, kind)
    return value


def _lacks(name: str, kind: type[Value]) -> Corrupt:
    return Corrupt(f"registry row lacks an attribute: name={name} type={kind.__name__}")


def _same(value: Any) -> Any:
    return value


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _id_of(text: str) -> bytes:
    id_bytes = bytes.fromhex(text)
    if len(id_bytes) != ID_BYTES:
        raise ValueError(f"bytes={len(id_bytes)}")
    return id_bytes


def _texts_of(text: str) -> dict[str, str]:
    return {str(name): str(value) for name, value in json.loads(text).items()}


def _numbers_of(text: str) -> tuple[int, ...]:
    return tuple(map(int, json.loads(text)))


ID_BYTES = 16
ID = Form(str, bytes.hex, _id_of)
"""16 bytes, as hexadecimal digits."""

NUMBERS = Form(str, _dump, _numbers_of)
"""A tuple of integers, as JSON."""

JSON_TEXTS = Form(str, lambda texts: json.dumps(dict(texts), sort_keys=True), _texts_of)
"""Strings by name, as JSON."""

OPTIONAL_TEXTS = JSON_TEXTS._replace(is_kept=False)
"""The same, left out while there are none."""

OPTIONAL_TEXT = Form(str, _same, _same, is_kept=False)
OPTIONAL_INT = Form(int, _same, _same, is_kept=False)
"""Left out while it has its default."""

_PLAIN: Mapping[Any, Form] = {kind: Form(kind, _same, _same) for kind in (int, str, bytes)}


_KNOWN: dict[type[Any], tuple[_Attribute, ...]] = {}


def _attributes(kind: type[Any]) -> tuple[_Attribute, ...]:
    attributes = _KNOWN.get(kind)
    if attributes is None:
        attributes = _KNOWN[kind] = tuple(_attribute(one) for one in fields(kind))
    return attributes


def _attribute(one: "Field[Any]") -> _Attribute:
    form = _form_of(one.type)
    default = None
    if one.default_factory is not MISSING:
        default = one.default_factory
    elif one.default is not MISSING:
        default = _constant(one.default)
    return _Attribute(one.name, form.name or one.name, form, default)


def _form_of(kind: Any) -> Form:
    for form in getattr(kind, "__metadata__", ()):
        assert isinstance(form, Form), form
        return form
    if kind in _PLAIN:
        return _PLAIN[kind]
    assert issubclass(kind, StrEnum), kind
    return Form(str, str, kind)


def _constant(value: T) -> Callable[[], T]:
    return lambda: value
