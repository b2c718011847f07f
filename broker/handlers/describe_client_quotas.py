"""DescribeClientQuotas, versions 0 and 1: the quotas that match a filter, of which there are none.

The filter is checked as Kafka does. Not done: quotas.
"""

from collections.abc import Sequence

from broker.answers.error_codes import Refuse
from broker.answers.services import Services
from broker.network.authorizer import CLUSTER, Operation
from broker.network.call import Call
from logstore.slices import Slices
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

USER, CLIENT_ID, IP = "user", "client-id", "ip"
EXACT, DEFAULT, SPECIFIED = 0, 1, 2


def handle(broker: Services, call: Call, request: DescribeClientQuotasRequest) -> None:
    broker.turns.begin(call, _answer(broker, call, request.components))


def _answer(broker: Services, call: Call, components: Sequence[ComponentData]) -> Slices[None]:
    response = DescribeClientQuotasResponse(entries=[])
    try:
        if not broker.allows(call, Operation.DESCRIBE_CONFIGS, *CLUSTER):
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            raise Refuse(code, "not allowed to describe quotas")
        yield from _check(components)
    except Refuse as refusal:
        response = DescribeClientQuotasResponse(0, refusal.code, str(refusal))
    call.answer(response)


def _check(components: Sequence[ComponentData]) -> Slices[None]:
    """Raises `Refuse` for a filter that makes no sense."""
    seen: set[str] = set()
    for one in components:
        kind = one.entity_type
        if not kind:
            raise _invalid("an entity type is empty")
        if kind in seen:
            raise _invalid(f"an entity type is named twice: type={kind}")
        if kind not in (USER, CLIENT_ID, IP):
            raise Refuse(ErrorCode.UNSUPPORTED_VERSION, f"no such entity type: type={kind}")
        if one.match_type not in (EXACT, DEFAULT, SPECIFIED):
            raise _invalid(f"no such way to match: match_type={one.match_type}")
        if (one.match_type == EXACT) != (one.match is not None):
            raise _invalid(
                f"exact matches need a name, others take none: type={kind} "
                f"match_type={one.match_type}"
            )
        seen.add(kind)
        yield
    if IP in seen and len(seen) > 1:
        raise _invalid("quotas of addresses have no users and no client ids: ask for ip alone")


def _invalid(why: str) -> Refuse:
    return Refuse(ErrorCode.INVALID_REQUEST, why)
