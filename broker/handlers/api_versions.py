"""ApiVersions, versions 0 to 4: what this broker speaks.

Produce is advertised from 0 though 0 to 2 are refused when used: librdkafka before 2.5 otherwise
turns compression off (KAFKA-18659). The one feature is the format level, so no client begins
transactions of version 2 or groups of KIP-848 (`answers.decisions.feature_updates`).

An unknown version is answered with a version 0 body that says which versions there are (KIP-511);
the client asks again.
"""

import re
from collections.abc import Iterable

from broker.answers.broker import Broker
from broker.answers.decisions.feature_updates import FORMAT_LEVEL
from broker.network.call import Call
from broker.network.software import Software
from logstore.formats.levels import OLDEST_LEVEL
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.apis import API_VERSIONS_KEY, APIS
from logstore.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

PRODUCE_KEY = 0
SOFTWARE_FROM = 3
"""From this version on the client says who it is."""

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")
_KEYS: list[ApiVersion] = []


def advertise(ranges: Iterable[tuple[int, int, int]]) -> None:
    """Set the answer: (key, first version, last version) of every API."""
    _KEYS[:] = [
        ApiVersion(key, 0 if key == PRODUCE_KEY else first, last)
        for key, first, last in sorted(ranges)
    ]


def api_versions(broker: Broker, call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if call.version >= SOFTWARE_FROM:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.match(name) and _SOFTWARE.match(version)):
            return ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
        call.connection.set_software(Software.of(name, version))
    level = broker.log.format_level
    return ApiVersionsResponse(
        api_keys=_KEYS,
        supported_features=[
            SupportedFeatureKey(FORMAT_LEVEL, OLDEST_LEVEL, broker.log.me.level_max)
        ],
        finalized_features_epoch=level,
        finalized_features=[FinalizedFeatureKey(FORMAT_LEVEL, level, level)],
    )


def answer_unknown_version(call: Call) -> None:
    """`call` is of version 0, whatever was asked."""
    api = APIS[API_VERSIONS_KEY]
    ours = ApiVersion(api.key, api.version_min, api.version_max)
    call.answer(ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, [ours]))
