"""AlterClientQuotas, versions 0 and 1: each entity has its own outcome (KIP-546).

When the answer leaves, this broker goes by the new quotas; the others do within a second.
`validate_only` checks and changes nothing. An entity that is named twice is changed by neither.
"""

from collections.abc import Mapping

from broker.answers.broker import Broker
from broker.answers.client_changes import log_change
from broker.answers.decisions.budgets import over_budget
from broker.answers.decisions.quota_requests import parse_entity, parse_operations
from broker.answers.decisions.refuse import Refuse
from broker.answers.decisions.repeats import counted
from broker.answers.error_codes import code_of
from broker.network.authorizer import CLUSTER, Operation
from broker.network.call import Call
from broker.requests.refusals import errors_in
from logstore.errors import LogstoreError
from logstore.formats.quota_row import QUOTAS_CHANGED, QuotaEntity, Values
from logstore.protocol.rows.quotas import Change, change_quotas
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    ResponseEntityData,
    ResponseEntryData,
)

PARTS_MAX = 8
"""Of an entity in an answer; there are three kinds."""

APPLIED_S_MAX = 5.0
"""How long an answer waits until this broker has applied the change."""

Parts = tuple[tuple[str, str | None], ...]


async def alter_client_quotas(
    broker: Broker, call: Call, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    refusal = over_budget(call.api.key, len(request.entries))
    often: Mapping[Parts, int] = {}
    if refusal is None:
        often = await call.finish(counted(map(_parts_of, request.entries)))
    if not broker.allows(call, Operation.ALTER_CONFIGS, *CLUSTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        refusal = Refuse(code, "not allowed to change quotas")
    results: dict[Parts, ResponseEntryData] = {}
    changes: dict[QuotaEntity, Change] = {}
    of_entity: dict[QuotaEntity, ResponseEntryData] = {}
    async for entry in call.each(request.entries):
        parts = _parts_of(entry)
        result = results[parts] = ResponseEntryData(
            entity=[ResponseEntityData(kind, name) for kind, name in parts]
        )
        with errors_in(result):
            if refusal is not None:
                raise refusal
            entity = parse_entity(entry.entity)
            if often[parts] > 1 or entity in changes:
                raise Refuse(ErrorCode.INVALID_REQUEST, "entity named twice")
            changes[entity] = parse_operations(entity, entry.ops)
            of_entity[entity] = result
    if not request.validate_only:
        await _change(broker, call, changes, of_entity)
    return AlterClientQuotasResponse(0, list(results.values()))


def _parts_of(entry: EntryData) -> Parts:
    """The first ones: an entity with more of them is refused, and is answered with these."""
    return tuple((part.entity_type, part.entity_name) for part in entry.entity[:PARTS_MAX])


async def _change(
    broker: Broker,
    call: Call,
    changes: Mapping[QuotaEntity, Change],
    results: Mapping[QuotaEntity, ResponseEntryData],
) -> None:
    by_row: dict[str, dict[QuotaEntity, Change]] = {}
    async for entity, change in call.each(changes.items()):
        by_row.setdefault(entity.row, {})[entity] = change
    now: dict[QuotaEntity, Values] = {}
    for sk, some in by_row.items():
        try:
            row = await broker.log.runner.run(change_quotas(sk, some))
        except LogstoreError as error:
            for entity in some:
                result = results[entity]
                result.error_code, result.error_message = code_of(error), str(error)
            continue
        async for entity in call.each(some):
            values = now[entity] = row.quotas.get(entity, {})
            shown = ",".join(f"{name}:{value:g}" for name, value in sorted(values.items()))
            log_change(call, "quota changed: entity=%s values=%s", entity.key, shown or "none")
    if now:
        await broker.log.publish([QUOTAS_CHANGED])
        # Another client may change them again first: then ours were applied before, or never are.
        await broker.topic_watch.until(
            lambda: all(
                broker.log.rows.quotas.get(entity, {}) == values for entity, values in now.items()
            ),
            APPLIED_S_MAX,
        )
