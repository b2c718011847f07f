"""The largest requests that a broker takes: each array of each API at its limit.

An array ends at `items_max` of its API (`broker.answers.decisions.budgets`), or where the frame is
as large as `logstore.request.max.bytes` allows. Arrays around it have one item, arrays below it
none. Partitions are those of the topic `WIDE`; names of topics are those of topics that are there,
as far as these go, then names that no topic has.
"""

import importlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from broker.handlers.served_requests import HANDLERS
from logstore.wire.framing.apis import encode_request_frame
from logstore.wire.messages import produce
from tools.full_wire import APIS

WIDE, WIDE_PARTITIONS = "wide", 10_000
"""A topic, and how many partitions it has."""
KNOWN = 500
"""Topics that are there, `known-000000` and so on."""

FRAME_BYTES_MAX = 1 << 20
TRIED = 500
_LIST = re.compile(r"list\[(\w+)\]")
_VERSIONS = {
    (0, ""): 12,
    (1, ""): 12,
    (9, "topics"): 7,
    (9, "topics.partition_indexes"): 7,
    (20, "topic_names"): 5,
}
"""Not the newest: newer ones have ids of topics instead of names, or no such array."""
_PARTITIONS = ("index", "partition", "partition_index", "partitions", "partition_indexes")
_TOPICS = ("name", "topic", "topic_name", "resource_name", "topic_names")
_GROUPS = ("group_id", "groups", "groups_names", "coordinator_keys")
_VALUES = {
    "acks": -1,
    "timeout_ms": 30_000,
    "session_timeout_ms": 30_000,
    "rebalance_timeout_ms": 30_000,
    "generation_id_or_member_epoch": -1,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "session_epoch": -1,
    "timestamp": -1,
    "num_partitions": 1,
    "replication_factor": 1,
    "resource_type": 2,
    "resource_type_filter": 2,
    "operation": 3,
    "permission_type": 3,
    "count": WIDE_PARTITIONS + 1,
    "response_partition_limit": 2_000,
    "records": None,
    "protocol_type": "consumer",
    "value": "1000",
    "path": "/",
    "validate_only": False,
}
_LAST = (20, 21, 37, 42, 47)
"""APIs whose requests delete or change what the others look at."""


class Largest(NamedTuple):
    key: int
    path: str
    """Of the array, from the request on."""
    version: int
    item_count: int
    request: Any

    def frame(self) -> bytes:
        return _frame(self.key, self.version, self.request)


def paths() -> Iterator[tuple[int, str]]:
    """Every array of every request that is served."""
    for key in sorted(HANDLERS.keys() & APIS.keys(), key=lambda one: (one in _LAST, one)):
        for path in _paths(key, _class(key, f"{APIS[key].name}Request")):
            yield key, path


def largest(key: int, path: str) -> Largest:
    empty, tried = (len(of_size(key, path, count).frame()) for count in (0, TRIED))
    item_bytes = (tried - empty) / TRIED
    count = min(HANDLERS[key].items_max, int((FRAME_BYTES_MAX - 100 - empty) / item_bytes))
    return of_size(key, path, count)


def of_size(key: int, path: str, count: int) -> Largest:
    """The same with `count` items."""
    version = _VERSIONS.get((key, path), _VERSIONS.get((key, ""), HANDLERS[key].version_max))
    return Largest(key, path, version, count, _request(key, path, count))


def produce_of(batch: bytes, topic: str, partitions: int) -> Largest:
    """As many batches as a request may have, for these partitions in turn."""
    count = HANDLERS[0].items_max - 1  # the topic is one
    data = [produce.PartitionProduceData(number % partitions, batch) for number in range(count)]
    request = produce.ProduceRequest(None, -1, 30_000, [produce.TopicProduceData(topic, b"", data)])
    return Largest(0, "batches", 12, count, request)


def _frame(key: int, version: int, request: Any) -> bytes:
    return b"".join(encode_request_frame(1, APIS[key], version, "largest", request))


def _class(key: int, name: str) -> Any:
    return getattr(importlib.import_module(f"logstore.wire.messages.{APIS[key].module}"), name)


def _paths(key: int, kind: Any, before: str = "") -> Iterator[str]:
    for name, annotation in _fields(kind):
        match = _LIST.match(annotation)
        if match is None:
            continue
        yield before + name
        if match[1] not in ("int", "str", "bytes"):
            yield from _paths(key, _class(key, match[1]), f"{before}{name}.")


def _fields(kind: Any) -> Iterator[tuple[str, str]]:
    for name, annotation in kind.__init__.__annotations__.items():
        if name != "return":
            yield name, annotation


def _request(key: int, path: str, count: int) -> Any:
    return _message(key, _class(key, f"{APIS[key].name}Request"), path.split("."), count, 0)


def _message(key: int, kind: Any, path: list[str], count: int, number: int) -> Any:
    """With the array at `path` below it; without one where `path` is empty."""
    message = kind()
    for name, annotation in _fields(kind):
        match = _LIST.match(annotation)
        if match is None:
            if name in _VALUES or name in (*_PARTITIONS, *_TOPICS, *_GROUPS):
                value = _value(key, name, number, is_item=not path)
                setattr(message, name, float(value) if annotation == "float" else value)
        elif path and name == path[0]:
            many = count if len(path) == 1 else 1
            setattr(
                message,
                name,
                [_item(key, name, match[1], path[1:], count, one) for one in range(many)],
            )
        elif not path and name in ("replicas", "broker_ids"):
            setattr(message, name, [1])
        elif not path and match[1] == "int":
            setattr(message, name, [0])
    return message


def _item(key: int, name: str, kind: str, path: list[str], count: int, number: int) -> Any:
    if kind in ("int", "str"):
        if name == "resource_types":
            return 2
        value = _value(key, name, number, is_item=True)
        return value if isinstance(value, int) == (kind == "int") else number
    return _message(key, _class(key, kind), path, count, number)


def _value(key: int, name: str, number: int, *, is_item: bool) -> Any:
    if name in _VALUES:
        return _VALUES[name]
    if name in _PARTITIONS:
        return number % WIDE_PARTITIONS
    if name in _GROUPS or key == 11:
        return f"group-{number:06}"
    if not is_item:
        return WIDE
    if key in (32, 33, 44) and name == "name":
        return "retention.ms"
    prefix = "known" if number < KNOWN and key != 19 else "fresh"
    return f"{prefix}-{number:06}"
