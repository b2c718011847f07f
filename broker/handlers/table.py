"""Which requests are served, in which versions, by whom. ApiVersions answers from it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.call import Call
from broker.handlers import (
    api_versions,
    create_topics,
    delete_topics,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    produce,
)
from logstore.wire.apis import APIS, Api

if TYPE_CHECKING:
    from broker.broker import Broker

ITEMS_MAX = 100_000
"""Most items of one array of a request; its frame is at most `logstore.request.max.bytes`."""

PRODUCE_ITEMS_MAX = 10_000
"""The same for Produce, whose frames may be large."""

Handle = Callable[["Broker", Call, Any], None]


class Handler(NamedTuple):
    api: Api
    version_min: int
    version_max: int
    handle: Handle
    items_max: int


def _handler(key: int, handle: Handle, items_max: int = ITEMS_MAX) -> tuple[int, Handler]:
    api = APIS[key]
    return key, Handler(api, api.version_min, api.version_max, handle, items_max)


HANDLERS: dict[int, Handler] = dict(
    [
        _handler(0, produce.handle, PRODUCE_ITEMS_MAX),
        _handler(1, fetch.handle),
        _handler(2, list_offsets.handle),
        _handler(3, metadata.handle),
        _handler(10, find_coordinator.handle),
        _handler(18, api_versions.handle),
        _handler(19, create_topics.handle),
        _handler(20, delete_topics.handle),
        _handler(22, init_producer_id.handle),
    ]
)

api_versions.advertise((key, row.version_min, row.version_max) for key, row in HANDLERS.items())
