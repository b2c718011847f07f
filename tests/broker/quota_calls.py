"""Requests about quotas that several tests make, and the end of a client's throttling."""

from collections.abc import Mapping

from broker.network.connection import ClientConnection
from logstore.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
    ResponseEntryData,
)
from logstore.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tests.broker.running import Running
from tools.full_wire import Connection

DESCRIBE_CLIENT_QUOTAS, ALTER_CLIENT_QUOTAS = 48, 49
EXACT, DEFAULT, SPECIFIED = 0, 1, 2

Entity = Mapping[str, str | None]


def entry(entity: Entity, **values: float | None) -> EntryData:
    """`None` for a name is the default; `None` for a value removes it."""
    return EntryData(
        [EntityData(kind, name) for kind, name in entity.items()],
        [OpData(name, value or 0.0, value is None) for name, value in values.items()],
    )


def alter(
    client: Connection, *entries: EntryData, validate_only: bool = False, version: int = 1
) -> list[ResponseEntryData]:
    request = AlterClientQuotasRequest(list(entries), validate_only)
    response: AlterClientQuotasResponse = client.call(ALTER_CLIENT_QUOTAS, request, version)
    return response.entries


def set_quota(client: Connection, entity: Entity, **values: float | None) -> None:
    (result,) = alter(client, entry(entity, **values))
    assert result.error_code == 0, result.error_message


def describe(
    client: Connection, *components: ComponentData, strict: bool = False, version: int = 1
) -> DescribeClientQuotasResponse:
    request = DescribeClientQuotasRequest(list(components), strict)
    response: DescribeClientQuotasResponse = client.call(DESCRIBE_CLIENT_QUOTAS, request, version)
    return response


def all_quotas(client: Connection) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    return {
        tuple((part.entity_type, part.entity_name) for part in one.entity): {
            value.key: value.value for value in one.values
        }
        for one in describe(client).entries or ()
    }


def is_read(running: Running, client: Connection) -> bool:
    """Whether the broker takes what `client` sends."""
    port = client._peer.getsockname()[1]

    def look() -> bool:
        (one,) = [c for c in connections(running) if c.peer == f"127.0.0.1:{port}"]
        assert one.transport is not None
        return one.transport.is_reading()

    return running.do(look)


def connections(running: Running) -> list[ClientConnection]:
    return list(running.broker.clients.connections)


def end_throttling(running: Running) -> None:
    """As if the time of all throttled connections were over."""
    mutes = running.broker.clients.mutes

    def end() -> None:
        for mute in tuple(mutes._mutes.values()):
            mute.time_out()

    running.do(end)
