"""Reads Kafka's message schemas out of the installed `kio` package, into plain values.

kio holds one dataclass per struct and version. Here the versions of one struct are merged into one
`Shape` (what the Python class needs); each version keeps its own `Layout` (what the bytes need).
kio drops the unit of times (`timeout` for Kafka's TimeoutMs); it is put back.
"""

import dataclasses
import datetime
import importlib
import typing
import uuid
from types import UnionType

WIRE_CODE = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
}
"""kio's types of fixed size, as codes of the struct module."""

_MILLISECOND_TYPES = ("timedelta_i32", "timedelta_i64", "datetime_i64")


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: str
    """A code of the struct module, or one of string, bytes, records, struct."""
    array: bool
    nullable: bool
    tag: int | None
    compact: bool
    layout: "Layout | None"
    default: object
    """None for a tagged struct: absent."""


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """One struct in one version; `fields` are in wire order, tagged ones by tag at the end."""

    name: str
    flexible: bool
    fields: tuple[Field, ...]

    @property
    def untagged(self) -> list[Field]:
        return [field for field in self.fields if field.tag is None]

    @property
    def tagged(self) -> list[Field]:
        return [field for field in self.fields if field.tag is not None]

    @property
    def holds_records(self) -> bool:
        return any(
            field.kind == "records" or (field.layout is not None and field.layout.holds_records)
            for field in self.fields
        )


@dataclasses.dataclass(slots=True)
class Shape:
    """One struct over all versions: every field any version has, in Kafka's order."""

    name: str
    fields: dict[str, Field]
    versions: dict[str, list[int]]
    """By field name."""


@dataclasses.dataclass(frozen=True, slots=True)
class Message:
    role: str
    """request or response."""
    roots: dict[int, Layout]
    shapes: list[Shape]
    """Inner structs first."""


def read_message(
    module: str, role: str, versions: range, taken: frozenset[str] = frozenset()
) -> Message:
    """`taken`: struct names of the module already in use; ours get the role in front."""
    roots = {
        version: _rename(_read_root(module, role, version), role.capitalize(), taken)
        for version in versions
    }
    shapes: dict[str, list[tuple[int, Layout]]] = {}
    for version, root in roots.items():
        for layout in _inner_first(root):
            shapes.setdefault(layout.name, []).append((version, layout))
    order = [layout.name for root in reversed(roots.values()) for layout in _inner_first(root)]
    names = sorted(shapes, key=order.index)
    return Message(role, roots, [_merge(name, shapes[name]) for name in names])


def flexible_from(message: Message) -> int | None:
    return next((version for version, root in message.roots.items() if root.flexible), None)


def _read_root(module: str, role: str, version: int) -> Layout:
    source = importlib.import_module(f"kio.schema.{module}.v{version}.{role}")
    wanted = module.replace("_", "") + role
    for name, value in vars(source).items():
        if value.__class__ is type and name.endswith(role.capitalize()) and name.lower() == wanted:
            return _read_layout(value)
    raise LookupError(f"no {role} in {source.__name__}")


def _read_layout(entity: type) -> Layout:
    flexible: bool = entity.__flexible__  # type: ignore[attr-defined]
    fields = [_read_field(entity, field, flexible) for field in dataclasses.fields(entity)]
    tagged = sorted((f for f in fields if f.tag is not None), key=lambda f: f.tag or 0)
    return Layout(entity.__name__, flexible, (*(f for f in fields if f.tag is None), *tagged))


def _read_field(entity: type, field: "dataclasses.Field[object]", flexible: bool) -> Field:
    inner, nullable = _without_none(field.type)
    array = typing.get_origin(inner) is tuple
    if array:
        inner, _ = _without_none(typing.get_args(inner)[0])
    kafka_type: str = field.metadata.get("kafka_type", "struct")
    kind = WIRE_CODE.get(kafka_type, kafka_type)
    tag: int | None = field.metadata.get("tag")
    return Field(
        name=field.name + ("_ms" if kafka_type in _MILLISECOND_TYPES else ""),
        kind=kind,
        array=array,
        nullable=nullable and (array or kind in ("string", "bytes", "records", "struct")),
        tag=tag,
        compact=flexible,
        layout=_read_layout(inner) if kafka_type == "struct" else None,
        default=_default(field, kind, array, nullable, kafka_type),
    )


def _rename(layout: Layout, prefix: str, taken: frozenset[str]) -> Layout:
    return dataclasses.replace(
        layout,
        name=prefix + layout.name if layout.name in taken else layout.name,
        fields=tuple(
            dataclasses.replace(field, layout=_rename(field.layout, prefix, taken))
            if field.layout is not None
            else field
            for field in layout.fields
        ),
    )


def _without_none(annotation: typing.Any) -> tuple[typing.Any, bool]:
    if typing.get_origin(annotation) not in (UnionType, typing.Union):
        return annotation, False
    (inner,) = [arg for arg in typing.get_args(annotation) if arg is not type(None)]
    return inner, True


def _default(
    field: "dataclasses.Field[object]", kind: str, array: bool, nullable: bool, kafka_type: str
) -> object:
    """As a literal of the generated class; lists stand for "a fresh list"."""
    if field.default is dataclasses.MISSING:
        return _implicit_default(kind, array, nullable, kafka_type)
    value = field.default
    if array:
        return None if value is None else []
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if kafka_type == "datetime_i64":
        return -1
    if isinstance(value, uuid.UUID):
        return value.bytes
    if kind == "struct":
        return None
    if kind == "16s":
        return bytes(16)
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _implicit_default(kind: str, array: bool, nullable: bool, kafka_type: str) -> object:
    if kind == "records":
        return b""  # never null by accident: librdkafka refuses a record set of size -1
    if nullable and (array or kind in ("string", "bytes", "struct")):
        return None
    if array:
        return []
    if kafka_type == "datetime_i64" and nullable:
        return -1
    special = {"string": "", "bytes": b"", "16s": bytes(16), "?": False, "d": 0.0, "struct": None}
    return special.get(kind, 0)


def _inner_first(layout: Layout) -> list[Layout]:
    inner = [field.layout for field in layout.fields if field.layout is not None]
    return [each for child in inner for each in _inner_first(child)] + [layout]


def _merge(name: str, layouts: list[tuple[int, Layout]]) -> Shape:
    seen: dict[str, list[Field]] = {}
    versions: dict[str, list[int]] = {}
    for version, layout in layouts:
        for field in layout.fields:
            seen.setdefault(field.name, []).append(field)
            if version not in versions.setdefault(field.name, []):
                versions[field.name].append(version)
    ordered = _kafka_order([[field.name for field in layout.fields] for _, layout in layouts])
    return Shape(name, {key: _merge_field(name, seen[key]) for key in ordered}, versions)


def _merge_field(struct: str, seen: list[Field]) -> Field:
    """The newest version's field; null is its default only if every version takes null."""
    if len({(field.kind, field.array) for field in seen}) > 1:
        raise ValueError(f"type changes between versions: {struct}.{seen[0].name}")
    strict = [field.default for field in seen if not field.nullable]
    return dataclasses.replace(
        seen[-1],
        nullable=any(field.nullable for field in seen),
        default=strict[-1] if strict else seen[-1].default,
    )


def _kafka_order(sequences: list[list[str]]) -> list[str]:
    """One order that agrees with the wire order of every version (untagged fields at least)."""
    after: dict[str, set[str]] = {}
    for names in sequences:
        for i, name in enumerate(names):
            after.setdefault(name, set()).update(names[:i])
    ordered: list[str] = []
    while len(ordered) < len(after):
        ready = [n for n, before in after.items() if n not in ordered and before <= set(ordered)]
        if not ready:
            raise ValueError(f"no common order of {sequences}")
        ordered.append(ready[0])
    return ordered
