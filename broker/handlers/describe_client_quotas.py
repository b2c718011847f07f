"""DescribeClientQuotas, versions 0 and 1: the quotas that match a filter, as this broker has them.

No component asks for all; `strict` leaves out entities of further kinds (KIP-546).
"""

from broker.answers.broker import Broker
from broker.answers.decisions.quota_requests import parse_filter
from broker.network.call import Call
from logstore.formats.quota_row import QuotaEntity, Values
from logstore.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)


async def describe_client_quotas(
    broker: Broker, call: Call, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    wanted = parse_filter(request.components, is_strict=request.strict)
    entries: list[EntryData] = []
    async for entity, values in call.each(broker.log.rows.quotas.items()):
        if wanted.matches(entity):
            entries.append(_encode(entity, values))
    return DescribeClientQuotasResponse(entries=entries)


def _encode(entity: QuotaEntity, values: Values) -> EntryData:
    return EntryData(
        [EntityData(kind, name or None) for kind, name in entity.parts],
        [ValueData(name, value) for name, value in sorted(values.items())],
    )
