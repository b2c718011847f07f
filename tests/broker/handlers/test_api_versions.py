"""ApiVersions tells what is served, in a form that every client can read."""

import re
from pathlib import Path

import pytest

from broker.answers.decisions.feature_updates import FORMAT_LEVEL
from broker.handlers.served_requests import HANDLERS
from logstore.formats.levels import OLDEST_LEVEL
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.apis import (
    PRIVATE_APIS,
    decode_response_header,
    encode_request_frame,
)
from logstore.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.broker.running import API_VERSIONS, PRODUCE, Running
from tools.full_wire import APIS, Connection

FEATURES_FROM = 3
OF_OLD_CLIENTS = {
    0: (0, 13),
    1: (4, 18),
    2: (1, 11),
    9: (1, 10),
    11: (0, 9),
    16: (0, 5),
    23: (2, 4),
}
"""Ranges from which they conclude more than a version: librdkafka its codecs from Produce 0, its
batches from Produce 3 and Fetch 4, Kerberos (before 2.11) from JoinGroup 0. ListOffsets 0 has
another meaning. OffsetFetch and ListGroups broke clients where a broker named one version alone."""


@pytest.mark.parametrize("version", range(5))
def test_every_version_tells_the_table_and_the_newer_ones_features(
    running: Running, client: Connection, version: int
) -> None:
    request = ApiVersionsRequest("some-client", "1.2.3")
    response: ApiVersionsResponse = client.call(API_VERSIONS, request, version)
    reported = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}

    assert response.error_code == 0
    assert set(reported) == set(HANDLERS) - set(PRIVATE_APIS)
    assert reported[PRODUCE] == (0, 13)  # 0 to 2 are refused when used
    assert all(
        reported[key] == (h.version_min, h.version_max)
        for key, h in HANDLERS.items()
        if key and key in reported
    )
    if version < FEATURES_FROM:
        assert not response.supported_features and response.finalized_features_epoch == -1
        return
    (supported,), (finalized,) = response.supported_features, response.finalized_features
    assert (supported.name, supported.min_version) == (FORMAT_LEVEL, OLDEST_LEVEL)
    assert supported.min_version > 0, "Java up to 3.8 cannot read 0 (KAFKA-17011)"
    assert supported.max_version == running.log.me.level_max
    level = running.log.format_level
    assert (finalized.min_version_level, finalized.max_version_level) == (level, level)
    assert response.finalized_features_epoch == level


def test_old_clients_find_the_ranges_that_they_look_for(client: Connection) -> None:
    response: ApiVersionsResponse = client.call(API_VERSIONS, ApiVersionsRequest("a", "1"), 3)
    ranges = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}

    assert {key: ranges[key] for key in OF_OLD_CLIENTS} == OF_OLD_CLIENTS


def test_the_table_of_the_documentation_is_the_one_that_is_served() -> None:
    page = (Path(__file__).parents[3] / "docs/operations/admin.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (\d+)-(\d+) \|$", page, re.MULTILINE)

    assert rows == [
        (str(key), row.api.name, str(row.version_min), str(row.version_max))
        for key, row in sorted(HANDLERS.items())
        if key not in PRIVATE_APIS
    ]


def test_an_unknown_version_is_answered_with_a_version_0_body(client: Connection) -> None:
    frame = bytearray(
        b"".join(encode_request_frame(9, APIS[18], 4, "me", ApiVersionsRequest("a", "1")))
    )
    frame[6:8] = (77).to_bytes(2, "big")
    client.send_raw(bytes(frame))
    answer = client.read_frame()

    correlation_id, at = decode_response_header(answer, APIS[18], 0)
    response: ApiVersionsResponse = APIS[18].decode_response(0, answer, at)
    assert (correlation_id, response.error_code) == (9, ErrorCode.UNSUPPORTED_VERSION)
    assert [(one.api_key, one.min_version, one.max_version) for one in response.api_keys] == [
        (API_VERSIONS, 0, 4)
    ]
    assert client.negotiate(), "the connection goes on"


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("a b", "1"), ("a", "1\n"), ("-a", "1")])
def test_a_client_that_misnames_itself_is_refused(
    client: Connection, name: str, version: str
) -> None:
    response = client.call(API_VERSIONS, ApiVersionsRequest(name, version), 3)

    assert response.error_code == ErrorCode.INVALID_REQUEST
