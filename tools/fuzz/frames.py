"""Frames that attack a broker: requests of every key and version, most of them damaged.

A request is filled at random, with names and numbers that mean something to brokers and some that
do not, and encoded; then bytes behind its header are changed, left out or repeated, and its size is
made right again. Everything follows from the `random.Random` that is passed in.
"""

import importlib
import random
import re
import struct
from collections.abc import Iterator
from functools import cache
from typing import Any

from broker.handlers.served_requests import HANDLERS
from logstore.errors import LogstoreError
from logstore.wire.framing.apis import decode_request_header, encode_request_frame
from tools.full_wire import APIS
from tools.fuzz.inputs import some_batches

TOPICS = tuple(f"fuzz-{number}" for number in range(8))
NAMES = (
    *TOPICS,
    *("", "no-such-topic", "one/two", "x" * 249, "groups-1", "groups-2", "consumer", "range"),
    *("cleanup.policy", "retention.ms", "compact", "1000", "-1", "1", "2", "3", "77", "\u00e9"),
    *("user", "client-id", "ip", "10.0.0.1", "__consumer_offsets", "__cluster_metadata"),
)
SMALL = (0, 1, 2, 3, 4, 5, 8, -1, -2, -3, 77, 100, 127)
LARGE = (32_767, -32_768, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 1_700_000_000_000)
CLIENT_ID = "fuzz"
RARE = (19, 20, 37)
"""Requests that make topics and partitions, or delete them, are one in twenty of their share."""

_FIXED: dict[str, tuple[int, ...]] = {
    "max_wait_ms": (0, 1),
    "acks": (-1, 1),
    "timeout_ms": (1, 1_000),
    "num_partitions": (1, 2),
}
_FIXED |= {"count": (1, 2, 3), "validate_only": (True, True, False)}
_LIST = re.compile(r"list\[(\w+)\]")
_EXTREMES = tuple(
    bytes.fromhex(text)
    for text in (
        "00000000",
        "ffffffff",
        "7fffffff",
        "80000000",
        "00ffffff",
        "ff",
        "00",
        "7f",
        "80",
        "ffff",
    )
)
_SIZE = struct.Struct(">i")
ITEMS_MAX, ATTEMPTS = 3, 3
MADE_MIN, MADE_MAX, NEW_SHARE = 500, 5_000, 0.1


def frames(rng: random.Random) -> Iterator[bytes]:
    """Without end, each with its size. A request is damaged in several ways: making one is slow."""
    made: list[bytes] = []
    while True:
        if len(made) < MADE_MIN or rng.random() < NEW_SHARE:
            made.append(_encoded(rng, *_choose(rng)))
            if len(made) > MADE_MAX:
                made[rng.randrange(MADE_MAX)] = made.pop()
        yield _damaged(rng, rng.choice(made))


def _damaged(rng: random.Random, frame: bytes) -> bytes:
    """In up to three places behind its header."""
    body = bytearray(frame[4:])
    _, _, _, _, at = decode_request_header(memoryview(frame)[4:])
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 3))):
        _damage(rng, body, at)
    return _SIZE.pack(len(body)) + body


@cache
def served() -> tuple[tuple[int, int], ...]:
    """Every key and version."""
    return tuple(
        (key, version)
        for key, handler in sorted(HANDLERS.items())
        if key in APIS
        for version in range(handler.version_min, handler.version_max + 1)
    )


def _choose(rng: random.Random) -> tuple[int, int]:
    """Each key as often as others, but for `RARE` ones; each of its versions, too."""
    keys = sorted({key for key, _ in served()})
    while True:
        key = rng.choice(keys)
        if key not in RARE or rng.random() < 0.05:
            return key, rng.choice([version for one, version in served() if one == key])


def _encoded(rng: random.Random, key: int, version: int) -> bytes:
    """Large numbers do not fit every field: the last attempt has small ones alone."""
    for attempt in range(ATTEMPTS):
        request = _message(rng, key, f"{APIS[key].name}Request", attempt < ATTEMPTS - 1)
        try:
            parts = encode_request_frame(
                rng.randrange(2**31), APIS[key], version, CLIENT_ID, request
            )
            return b"".join(parts)
        except (LogstoreError, struct.error, OverflowError, ValueError):
            continue
    return b"".join(encode_request_frame(1, APIS[key], version, CLIENT_ID, _empty(key)))


def _empty(key: int) -> Any:
    return _kind(key, f"{APIS[key].name}Request")()


@cache
def _kind(key: int, name: str) -> Any:
    return getattr(importlib.import_module(f"logstore.wire.messages.{APIS[key].module}"), name)


@cache
def _fields(kind: Any) -> tuple[tuple[str, str], ...]:
    annotations = kind.__init__.__annotations__
    return tuple((name, text) for name, text in annotations.items() if name != "return")


def _message(rng: random.Random, key: int, name: str, may_be_large: bool) -> Any:
    message = _kind(key, name)()
    for field, annotation in _fields(_kind(key, name)):
        if rng.random() < 0.9:
            setattr(message, field, _value(rng, key, field, annotation, may_be_large))
    return message


def _value(rng: random.Random, key: int, field: str, annotation: str, may_be_large: bool) -> Any:
    if field in _FIXED:
        return rng.choice(_FIXED[field])
    listed = _LIST.match(annotation)
    if listed is not None:
        if "None" in annotation and rng.random() < 0.03:
            return None
        count = rng.choice((0, 1, 1, 1, 2, ITEMS_MAX))
        return [_value(rng, key, "", listed[1], may_be_large) for _ in range(count)]
    if "Buffer" in annotation:
        return b"".join(some_batches(rng)) if field == "records" else rng.randbytes(20)
    kind = annotation.partition(" ")[0]
    if kind == "int":
        return rng.choice(LARGE if may_be_large and rng.random() < 0.1 else SMALL)
    if kind == "str":
        return rng.choice(NAMES)
    if kind == "bytes":
        return rng.choice((bytes(16), rng.randbytes(16)))
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "float":
        return rng.choice((0.0, 1.0, -1.0, 1e300, float("nan")))
    return _message(rng, key, kind, may_be_large)


def _damage(rng: random.Random, body: bytearray, at: int) -> None:
    """One place behind the header."""
    if len(body) <= at:
        return
    place = rng.randrange(at, len(body))
    match rng.randrange(8):
        case 0 | 1 | 2:
            body[place] ^= 1 << rng.randrange(8)
        case 3:
            body[place] = rng.randrange(256)
        case 4:
            extreme = rng.choice(_EXTREMES)
            body[place : place + len(extreme)] = extreme
        case 5:
            del body[place : place + rng.choice((1, 2, 4, 16))]
        case 6:
            body[place:place] = body[place : place + rng.choice((1, 4, 16, 64))]
        case _:
            body += rng.randbytes(rng.choice((1, 4)))
