"""UpdateFeatures, versions 0 to 2: finalizes a format level, as `logstore upgrade --finalize` does.

Any broker may be asked. A level is raised once every registered broker reads it; who stands in the
way is named. A level that is finalized already is answered at once. A raise is answered two leases
(6 s) after it, when brokers that started concurrently have been seen too.

Not done: `timeout_ms`. Given up by its client, the raise goes on, and may be asked for again.
"""

from collections.abc import Sequence

from broker.answers.broker import Broker
from broker.answers.client_changes import log_change
from broker.answers.decisions.budgets import over_budget
from broker.answers.decisions.feature_updates import (
    FORMAT_LEVEL,
    Levels,
    Update,
    UpgradeType,
    plan_updates,
)
from broker.answers.decisions.refuse import Refuse
from broker.network.call import Call
from broker.requests.refusals import errors_in
from logstore.errors import Refused
from logstore.formats.levels import OLDEST_LEVEL
from logstore.protocol.leading.upgrade import (
    BrokersHinder,
    UpgradeView,
    check_brokers,
    finalize,
    find_hindrances,
    read_view,
)
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

TYPES_FROM, NO_RESULTS_FROM = 1, 2
"""Versions of the request: from the first on it has upgrade types and may be a check alone; from
the second on its answer has no item for each feature."""

DONE = "NONE"
"""The message of an item without an error, as Kafka writes it."""


async def update_features(
    broker: Broker, call: Call, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    response = UpdateFeaturesResponse()
    with errors_in(response):
        updates = _updates(call, request)
        try:
            await _change(broker, call, updates, is_check=request.validate_only)
        except BrokersHinder as hindered:
            raise Refuse(ErrorCode.INVALID_UPDATE_VERSION, str(hindered)) from hindered
        except Refused as refused:
            raise Refuse(ErrorCode.FEATURE_UPDATE_FAILED, str(refused)) from refused
        if call.version < NO_RESULTS_FROM:
            response.results = [UpdatableFeatureResult(one.feature, 0, DONE) for one in updates]
    return response


def _updates(call: Call, request: UpdateFeaturesRequest) -> list[Update]:
    """Raises `Refuse`."""
    if refusal := over_budget(call.api.key, len(request.feature_updates)):
        raise refusal
    return [
        Update(
            one.feature,
            one.max_version_level,
            one.upgrade_type if call.version >= TYPES_FROM else UpgradeType.UPGRADE,
        )
        for one in request.feature_updates
    ]


async def _change(broker: Broker, call: Call, updates: Sequence[Update], *, is_check: bool) -> None:
    log = broker.log
    level = plan_updates(updates, Levels(log.format_level, OLDEST_LEVEL, log.me.level_max))
    if level <= log.format_level:
        return
    cluster_id = log.cluster_id
    if is_check:
        check_brokers(await log.runner.run(read_view(cluster_id)), level)
        return
    view = await log.runner.run(finalize(cluster_id, level=level))
    log_change(call, "feature updated: feature=%s level=%s", FORMAT_LEVEL, level)
    _check_late_starts(view, level)


def _check_late_starts(view: UpgradeView, level: int) -> None:
    """Raises `Refused` for a broker of 0.1.0 that started in the moment of the raise."""
    late = find_hindrances(view, level)
    if late:
        lines = "; ".join(f"{one.why}: stop it, or {one.cure}" for one in late)
        raise Refused(f"format level {level} is finalized, which some brokers cannot read: {lines}")
