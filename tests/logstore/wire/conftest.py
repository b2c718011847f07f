"""The oracle of the codec tests: random messages by kio, and their translation into ours."""

import dataclasses
import datetime
import functools
import importlib
import io
import random
import types
import typing
import uuid
from collections.abc import Callable
from typing import Any

import kio.serial
import pytest
from kio.schema.errors import ErrorCode

from logstore.wire.primitives import Message

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TEXTS = ["", "a", "logs", "größe", "x" * 126, "x" * 127, "y" * 300]
_SIZES = [0, 1, 126, 127, 128, 5000, 20_000]


class Oracle:
    """Everything kio knows about one message in one version."""

    def __init__(self, module: str, role: str, version: int) -> None:
        self._role = role
        source = importlib.import_module(f"kio.schema.{module}.v{version}.{role}")
        name = module.replace("_", "") + ("" if role == "header" else role)
        self.type = next(v for k, v in vars(source).items() if k.lower() == name)
        self._module = f"logstore.wire.messages.{module}"

    def random(self, rng: random.Random) -> Any:
        return _random_entity(self.type, rng)

    def encode(self, entity: Any) -> bytes:
        out = io.BytesIO()
        kio.serial.entity_writer(self.type)(out, entity)
        return out.getvalue()

    def decode(self, data: bytes) -> Any:
        entity, size = kio.serial.entity_reader(self.type)(data, 0)
        assert size == len(data)
        return entity

    def translate(self, entity: Any) -> Message:
        """Our message of the same content; a tagged struct at its default is absent with us."""
        ours: Message = self._class(type(entity).__name__)()
        for field in dataclasses.fields(entity):
            value = getattr(entity, field.name)
            absent = dataclasses.is_dataclass(value) and "tag" in field.metadata
            absent = absent and value == field.default
            name = field.name if hasattr(ours, field.name) else field.name + "_ms"
            kind = field.metadata.get("kafka_type", "struct")
            setattr(ours, name, None if absent else self._value(kind, value))
        return ours

    def _class(self, name: str) -> Any:
        """A struct of the response whose name the request has too is called Response... with us."""
        ours = importlib.import_module(self._module)
        renamed = getattr(ours, f"Response{name}", None)
        return renamed if renamed and self._role == "response" else getattr(ours, name)

    def _value(self, kind: str, value: Any) -> Any:
        if isinstance(value, tuple):
            return [self._value(kind, item) for item in value]
        if dataclasses.is_dataclass(value):
            return self.translate(value)
        if kind == "uuid":
            return bytes(16) if value is None else value.bytes
        if kind == "datetime_i64":
            return -1 if value is None else round(value.timestamp() * 1000)
        if isinstance(value, datetime.timedelta):
            return value // datetime.timedelta(milliseconds=1)
        return int(value) if isinstance(value, ErrorCode) else value


@pytest.fixture(scope="session")
def oracle_of() -> Any:
    return functools.cache(Oracle)


def _random_entity(entity_type: Any, rng: random.Random) -> Any:
    fields = dataclasses.fields(entity_type)
    return entity_type(**{field.name: _random_field(field, rng) for field in fields})


def _random_field(field: Any, rng: random.Random) -> Any:
    if "tag" in field.metadata and rng.random() < 0.5:
        return field.default
    annotation, nullable = _without_none(field.type)
    kind = field.metadata.get("kafka_type", "struct")
    if nullable and "tag" not in field.metadata and rng.random() < 0.25:
        return None
    if typing.get_origin(annotation) is tuple:
        inner, _ = _without_none(typing.get_args(annotation)[0])
        return tuple(_random_value(kind, inner, rng) for _ in range(rng.choice([0, 1, 2, 5])))
    return _random_value(kind, annotation, rng)


def _random_value(kind: str, annotation: Any, rng: random.Random) -> Any:
    if kind == "struct":
        return _random_entity(annotation, rng)
    if kind in _BITS:
        half = 1 << _BITS[kind] - 1
        return rng.choice([0, 1, -1, half - 1, -half, rng.randrange(-half, half)])
    if kind == "string":
        return rng.choice(_TEXTS)
    if kind in ("bytes", "records"):
        return rng.randbytes(rng.choice(_SIZES))
    if kind in ("timedelta_i32", "timedelta_i64"):
        return datetime.timedelta(milliseconds=rng.randrange(-(1 << 31), 1 << 31))
    if kind == "datetime_i64":
        return datetime.datetime.fromtimestamp(rng.randrange(1 << 32), datetime.UTC)
    simple: dict[str, Callable[[], object]] = {
        "float64": lambda: rng.uniform(-1e9, 1e9),
        "uint16": lambda: rng.choice([0, 1, 65_535, rng.randrange(1 << 16)]),
        "bool": lambda: rng.random() < 0.5,
        "error_code": lambda: rng.choice(list(ErrorCode)),
        "uuid": lambda: uuid.UUID(bytes=rng.randbytes(16)),
    }
    return simple[kind]()


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if not isinstance(annotation, types.UnionType):
        return annotation, False
    return next(a for a in typing.get_args(annotation) if a is not type(None)), True
