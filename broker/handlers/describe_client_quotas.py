"""DescribeClientQuotas, versions 0 and 1: the quotas that match a filter, as this broker has them.

No component asks for all; `strict` leaves out entities of further kinds (KIP-546).
"""

from broker.answers.error_codes import Refuse
from broker.answers.nested_answers import answer_nested
from broker.answers.quota_requests import parse_filter
from broker.answers.services import Services
from broker.network.authorizer import CLUSTER, Operation
from broker.network.call import Call
from logstore.formats.quota_row import QuotaEntity, Values
from logstore.slices import Slices
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)


def handle(broker: Services, call: Call, request: DescribeClientQuotasRequest) -> None:
    broker.turns.begin(call, _answer(broker, call, request))


def _answer(broker: Services, call: Call, request: DescribeClientQuotasRequest) -> Slices[None]:
    entries: list[EntryData] = []
    try:
        if not broker.allows(call, Operation.DESCRIBE_CONFIGS, *CLUSTER):
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            raise Refuse(code, "not allowed to describe quotas")
        wanted = parse_filter(request.components, is_strict=request.strict)
    except Refuse as refusal:
        call.answer(DescribeClientQuotasResponse(0, refusal.code, str(refusal)))
        return
    for entity, values in broker.log.quotas.items():
        if wanted.matches(entity):
            entries.append(_encode(entity, values))
        yield
    response = DescribeClientQuotasResponse(entries=entries)
    yield from answer_nested(call, response, ("entries",))


def _encode(entity: QuotaEntity, values: Values) -> EntryData:
    return EntryData(
        [EntityData(kind, name or None) for kind, name in entity.parts],
        [ValueData(name, value) for name, value in sorted(values.items())],
    )
