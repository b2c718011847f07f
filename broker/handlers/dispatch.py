"""From a frame to its handler: decode the header, check the version, decode the body, call.

Unknown keys and versions close the connection, as Kafka does: no error body exists that such a
client could decode. The exception is ApiVersions, which is how clients find out (KIP-511).

A large frame holds some 50,000 items: it is decoded in a thread, while its connection waits. The
frame of a Produce is large because of its records, which are not decoded: it goes to the thread
once it turns out to have many items, and these are bounded.
"""

from functools import partial

from broker.answers.broker import Broker
from broker.answers.thread_work import run_in_thread
from broker.handlers.api_versions import answer_unknown_version
from broker.handlers.before_login import takes_token
from broker.handlers.served_requests import HANDLERS
from broker.network.buffers import PRODUCE_KEY
from broker.network.call import Call, guard
from broker.network.connection import ClientConnection
from broker.requests.table import Row
from logstore.errors import Invalid, LogstoreError
from logstore.wire.framing.apis import API_VERSIONS_KEY, APIS, decode_request_header
from logstore.wire.framing.item_limit import ItemLimit
from logstore.wire.primitives import Buffer, DecodeError

AT_ONCE_BYTES_MAX = 48 * 1024
"""Larger frames are decoded in a thread: this much takes 2 to 13 ms."""

FEW_ITEMS_BYTES = 8 * 1024
"""A Produce up to this size has no more than some 1,300 items."""

PRODUCE_AT_ONCE_MAX = 1_000
"""A Produce with more items is decoded in a thread: so many take 2 to 3 ms."""


def dispatch(broker: Broker, connection: ClientConnection, frame: memoryview) -> None:
    """Raises `Invalid`, with the fault and its byte, for a frame that is no known request."""
    if connection.login is not None and takes_token(broker, connection, connection.login, frame):
        return
    key, version, correlation_id, client_id, at = decode_request_header(frame)
    handler = HANDLERS.get(key)
    if handler is None or not handler.version_min <= version <= handler.version_max:
        _answer_unknown(connection, key, version, correlation_id, client_id)
        return
    api, _, _, begin, items_max, _ = handler
    call = Call(connection, api, version, correlation_id, client_id)
    if key == PRODUCE_KEY:
        if len(frame) > FEW_ITEMS_BYTES:
            items_max = ItemLimit(PRODUCE_AT_ONCE_MAX)
    elif len(frame) > AT_ONCE_BYTES_MAX:
        _begin_in_thread(broker, connection, call, handler, bytes(frame), at)
        return
    try:
        request = api.decode_request(version, frame, at, items_max)
    except DecodeError as error:
        if not isinstance(items_max, ItemLimit) or not items_max.is_exceeded:
            raise _bad_request(call, error) from error
        # Its buffer is not used for another request while this one is not done.
        _begin_in_thread(broker, connection, call, handler, frame, at)
        return
    connection.begin(call)
    try:
        begin(broker, call, request)
    except LogstoreError as error:
        call.fail(str(error))
    except Exception as error:  # noqa: BLE001 - logged, and ends one connection
        call.fail_by_fault(error)


def _answer_unknown(
    connection: ClientConnection, key: int, version: int, correlation_id: int, client_id: str | None
) -> None:
    if key != API_VERSIONS_KEY:
        raise Invalid(
            f"unknown request: api_key={key} version={version} client_id={client_id!r} byte=0"
        )
    call = Call(connection, APIS[key], 0, correlation_id, client_id)
    connection.begin(call)
    answer_unknown_version(call)


def _bad_request(call: Call, error: DecodeError) -> Invalid:
    return Invalid(
        f"bad request: api_key={call.api.key} version={call.version} "
        f"client_id={call.client_id!r} {error}"
    )


def _begin_in_thread(
    broker: Broker,
    connection: ClientConnection,
    call: Call,
    handler: Row,
    frame: Buffer,
    at: int,
) -> None:
    call.is_large = True
    connection.begin(call)
    connection.suspend_requests()
    items_max = handler.items_max
    if call.api.key == PRODUCE_KEY:
        items_max = ItemLimit(items_max)
    work = partial(_decode_in_thread, broker, call, handler, frame, at, items_max)
    broker.start(call, work, broker.record_checks)


async def _decode_in_thread(
    broker: Broker, call: Call, handler: Row, frame: Buffer, at: int, items_max: int
) -> None:
    """Requests behind this one wait: they are to be handled in order."""
    connection = call.connection
    try:
        decode = partial(call.api.decode_request, call.version, frame, at, items_max)
        request = await run_in_thread(broker, call, decode)
    except DecodeError as error:
        connection.refuse(str(_bad_request(call, error)))
        return
    finally:
        connection.resume_requests()
    if not connection.is_closed:
        began_s = broker.loop.time()
        guard(call, partial(handler.begin, broker, call, request))
        broker.clients.note(call, broker.loop.time() - began_s)
