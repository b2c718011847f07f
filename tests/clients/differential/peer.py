"""A server that cases ask, and its answers as fields: `topics[orders].partitions[0].error_code`.

Answers are decoded by the codec that brokers encode with, in every version. Fields that differ
between any two clusters (ids, addresses, times) say only whether they have a value.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from broker.handlers.served_requests import HANDLERS
from logstore.errors import LogstoreError, OutcomeUnknown
from logstore.ports.clock import SystemClock
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from logstore.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tools.full_wire import APIS, Connection

METADATA, CREATE_TOPICS = 3, 19
STRANGE_ID = bytes(range(16))
"""Of no topic."""
ANSWER_S = 10.0
READY_S = 60.0
CLOSED = "connection closed"

MASKED = frozenset(
    {
        "assignment_member",
        "client_host",
        "cluster_id",
        "error_message",
        "finalized_features_epoch",
        "host",
        "last_timestamp",
        "leader",
        "log_append_time_ms",
        "log_dir",
        "member_id",
        "port",
        "producer_id",
        "replica_directory_id",
        "session_id",
        "topic_id",
        "total_bytes",
        "usable_bytes",
        "batch_index_error_message",
        "documentation",
    }
)
"""Fields that say only whether they have a value."""

_NAMES = (
    *(
        "name",
        "topic",
        "topic_name",
        "group_id",
        "resource_name",
        "key",
        "user",
        "transactional_id",
    ),
    *("partition_index", "index", "partition", "partition_id", "api_key", "broker_id", "node_id"),
    *("resource_type", "entity_type", "member_id", "batch_index"),
)
"""Fields that tell the items of an array apart, in this order."""

Fields = dict[str, object]


class Peer:
    """One server, by its address; `answers` are those of all requests so far, by their labels."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.address = host, int(port)
        self.answers: dict[str, Fields] = {}
        self.asked: set[tuple[int, int]] = set()
        """Keys and versions of the requests."""
        self.topic_ids: dict[str, bytes] = {}
        self._connection: Connection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def ask(self, label: str, key: int, version: int, request: Any) -> Any:
        """The answer, which is kept under `label`; None: the connection was closed instead."""
        label = f"{APIS[key].name} v{version} {label}"
        assert label not in self.answers, f"two requests have one label: {label}"
        self.asked.add((key, version))
        try:
            answer = self.call(key, version, request)
        except OutcomeUnknown:
            self.answers[label] = {"": CLOSED}
            return None
        self.answers[label] = dict(fields_of(answer))
        return answer

    def call(self, key: int, version: int, request: Any) -> Any:
        """The answer, which is not compared."""
        if self._connection is None or self._connection.is_closed:
            self._connection = Connection.open(*self.address, ANSWER_S, client_id="differential")
        return self._connection.call(key, request, version)

    # What cases need before they begin

    def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        """A topic, and wait until its partitions are led."""
        listed = [
            CreatableTopicConfig(one.replace("_", "."), text) for one, text in configs.items()
        ]
        topic = CreatableTopic(name, partitions, 1, configs=listed)
        answer = self.call(CREATE_TOPICS, 7, CreateTopicsRequest([topic], 30_000))
        assert not answer.topics[0].error_code, answer.topics[0].error_message
        self.topic_ids[name] = answer.topics[0].topic_id
        self.wait_until(lambda: self._is_led(name, partitions), f"topic {name} is led")

    def _is_led(self, name: str, partitions: int) -> bool:
        request = MetadataRequest([MetadataRequestTopic(name=name)], False)
        (topic,) = self.call(METADATA, 12, request).topics
        codes = [topic.error_code, *(one.error_code for one in topic.partitions)]
        return codes == [ErrorCode.NONE] * (1 + partitions)

    def wait_until(self, holds: Any, what: str) -> None:
        """Ask again until `holds` does."""
        clock = SystemClock()
        end_s = clock.monotonic_s() + READY_S
        while not self._holds(holds):
            assert clock.monotonic_s() < end_s, f"{self.address}: {what}: it never came true"

    def _holds(self, holds: Any) -> bool:
        try:
            return bool(holds())
        except LogstoreError:
            return False


def versions(key: int, first: int = 0, last: int = 10_000) -> Iterable[int]:
    """Those that we serve, from `first` to `last`."""
    handler = HANDLERS[key]
    return range(max(first, handler.version_min), min(last, handler.version_max) + 1)


def fields_of(answer: Any, path: str = "") -> Iterator[tuple[str, object]]:
    """Every field of a decoded answer, however deep, by its path."""
    names = type(answer).__init__.__annotations__
    for name in names:
        if name == "return":
            continue
        value, place = getattr(answer, name), f"{path}.{name}".removeprefix(".")
        if name in MASKED:
            yield place, "a value" if _has_value(value) else "none"
        elif isinstance(value, list | tuple) and value and _is_message(value[0]):
            yield f"{place}.count", len(value)
            for label, item in _labelled(value):
                yield from fields_of(item, f"{place}[{label}]")
        elif _is_message(value):
            yield from fields_of(value, place)
        elif isinstance(value, list | tuple):
            yield place, tuple(value)
        else:
            yield place, _plain(value)


def _is_message(value: object) -> bool:
    return type(value).__module__.startswith("logstore.wire.messages")


def _has_value(value: object) -> bool:
    return value not in (None, "", -1, bytes(16))


def _plain(value: object) -> object:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    parts = getattr(value, "parts", None)  # records of a Fetch
    if parts is not None:
        return b"".join(bytes(part) for part in parts).hex()
    return value


def _labelled(items: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Items by their names, so that their order does not count; a repeat by its number, too."""
    seen: dict[str, int] = {}
    for item in items:
        named = [str(getattr(item, name)) for name in _NAMES if _names(item, name)]
        label = "/".join(named)
        seen[label] = seen.get(label, 0) + 1
        yield label if seen[label] == 1 else f"{label}#{seen[label]}", item


def _names(item: Any, name: str) -> bool:
    return name not in MASKED and isinstance(getattr(item, name, None), str | int)
