"""From a frame to its handler: decode the header, check the version, decode the body, call.

Unknown keys and versions close the connection, as Kafka does: no error body exists that such a
client could decode. The exception is ApiVersions, which is how clients find out (KIP-511).
"""

from broker.answers.services import Services
from broker.handlers.api_versions import answer_unknown_version
from broker.handlers.served_requests import HANDLERS
from broker.network.call import Call
from broker.network.connection import ClientConnection
from logstore.errors import Invalid, LogstoreError
from logstore.wire.framing.apis import API_VERSIONS_KEY, APIS, decode_request_header
from logstore.wire.primitives import DecodeError


def dispatch(broker: Services, connection: ClientConnection, frame: memoryview) -> None:
    """Raises `Invalid`, with the fault and its byte, for a frame that is no known request."""
    key, version, correlation_id, client_id, at = decode_request_header(frame)
    found = HANDLERS.get(key)
    if found is None or not found.version_min <= version <= found.version_max:
        if key != API_VERSIONS_KEY:
            raise Invalid(
                f"unknown request: api_key={key} version={version} client_id={client_id!r} byte=0"
            )
        call = Call(connection, APIS[key], 0, correlation_id, client_id)
        connection.begin(call)
        answer_unknown_version(call)
        return
    api, _, _, handle, items_max = found
    try:
        request = api.decode_request(version, frame, at, items_max)
    except DecodeError as error:
        raise Invalid(
            f"bad request: api_key={key} version={version} client_id={client_id!r} {error}"
        ) from error
    call = Call(connection, api, version, correlation_id, client_id)
    connection.begin(call)
    try:
        handle(broker, call, request)
    except LogstoreError as error:
        call.fail(str(error))
    except Exception as error:  # noqa: BLE001 - logged, and ends one connection
        call.fail_by_fault(error)
