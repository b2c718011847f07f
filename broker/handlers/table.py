"""Which requests are served, in which versions, by whom. ApiVersions answers from it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.call import Call
from broker.handlers.api_versions import advertise
from broker.handlers.api_versions import handle as api_versions
from broker.handlers.create_topics import handle as create_topics
from broker.handlers.delete_topics import handle as delete_topics
from broker.handlers.fetch import handle as fetch
from broker.handlers.find_coordinator import handle as find_coordinator
from broker.handlers.init_producer_id import handle as init_producer_id
from broker.handlers.list_offsets import handle as list_offsets
from broker.handlers.metadata import handle as metadata
from broker.handlers.produce import handle as produce
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
        _handler(0, produce, PRODUCE_ITEMS_MAX),
        _handler(1, fetch),
        _handler(2, list_offsets),
        _handler(3, metadata),
        _handler(10, find_coordinator),
        _handler(18, api_versions),
        _handler(19, create_topics),
        _handler(20, delete_topics),
        _handler(22, init_producer_id),
    ]
)

advertise((key, row.version_min, row.version_max) for key, row in HANDLERS.items())
