"""UpdateFeatures raises the format level once every broker reads it, and names who does not."""

import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest

from broker.answers.decisions.feature_updates import FORMAT_LEVEL, UpgradeType
from broker.network.authorizer import Operation
from logstore.formats.broker_row import BROKER, BrokerRow, BrokerStatus
from logstore.formats.cluster_row import CLUSTER
from logstore.formats.keys import level_key
from logstore.formats.levels import NEWEST_LEVEL
from logstore.testing.simulated_rows import at_once
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from logstore.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tests.broker.handlers.test_adopt_levels import begin_with_level
from tests.broker.network.test_authorizer import deny
from tests.broker.running import API_VERSIONS, Running
from tools.full_wire import Connection

UPDATE_FEATURES = 57


def update(
    client: Connection,
    level: int = NEWEST_LEVEL,
    feature: str = FORMAT_LEVEL,
    *,
    upgrade_type: int = UpgradeType.UPGRADE,
    is_check: bool = False,
    version: int = 2,
) -> UpdateFeaturesResponse:
    asked = FeatureUpdateKey(feature, level, upgrade_type=upgrade_type)
    request = UpdateFeaturesRequest(60_000, [asked], is_check)
    response: UpdateFeaturesResponse = client.call(UPDATE_FEATURES, request, version)
    return response


def shown(client: Connection) -> tuple[int, list[tuple[str, int, int]]]:
    """Epoch and finalized features."""
    response: ApiVersionsResponse = client.call(API_VERSIONS, ApiVersionsRequest("a", "1"), 4)
    return response.finalized_features_epoch, [
        (one.name, one.min_version_level, one.max_version_level)
        for one in response.finalized_features
    ]


def level_of(running: Running) -> object:
    return running.shared.rows.peek(CLUSTER, CLUSTER)["format_level"]


@pytest.fixture
def of_level_1(running: Running) -> Iterator[None]:
    """The log of the module's broker as the release before would have made it."""
    begin_with_level(running, 1)
    yield
    begin_with_level(running, NEWEST_LEVEL)


@pytest.fixture
def behind(
    running: Running, of_level_1: None, request: pytest.FixtureRequest
) -> Iterator[BrokerStatus]:
    """A further broker's row as the release before leaves it: it does not say what it reads."""
    row = BrokerRow.of(running.shared.rows.peek(BROKER, str(running.log.me.broker)))
    other = replace(row, level_max=1, version="", status=request.param)
    at_once(running.shared.rows.put_if(BROKER, "7", other.row(), [], "test"))
    yield request.param
    at_once(running.shared.rows.delete_if(BROKER, "7", [], "test"))


@pytest.mark.slow
@pytest.mark.usefixtures("of_level_1")
def test_a_level_is_raised_once_and_shown_with_a_higher_epoch(
    running: Running, client: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    assert shown(client) == (1, [(FORMAT_LEVEL, 1, 1)])
    assert update(client, is_check=True).error_code == 0
    assert level_of(running) == 1, "a check changes nothing"

    with caplog.at_level(logging.INFO):
        answer = update(client)
    assert (answer.error_code, answer.error_message, answer.results) == (0, None, [])
    assert level_of(running) == NEWEST_LEVEL
    assert running.shared.objects.get(level_key(NEWEST_LEVEL))
    running.wait_until(lambda: running.log.format_level == NEWEST_LEVEL)
    assert shown(client) == (NEWEST_LEVEL, [(FORMAT_LEVEL, NEWEST_LEVEL, NEWEST_LEVEL)])
    assert f"feature updated: feature={FORMAT_LEVEL} level={NEWEST_LEVEL} principal=" in caplog.text


@pytest.mark.parametrize("is_check", [True, False])
@pytest.mark.parametrize("behind", [BrokerStatus.SERVING, BrokerStatus.STOPPED], indirect=True)
def test_a_broker_that_cannot_read_the_level_is_named(
    running: Running, client: Connection, behind: BrokerStatus, is_check: bool
) -> None:
    answer = update(client, is_check=is_check)

    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert f"broker 7 ({behind}) is of version 0.1.0 or older" in (answer.error_message or "")
    assert level_of(running) == 1


@pytest.mark.parametrize("version", range(3))
def test_what_is_finalized_is_answered_at_once_in_each_versions_shape(
    running: Running, client: Connection, version: int
) -> None:
    feed = running.log.feed_version
    answer = update(client, version=version)

    assert answer.error_code == 0
    expected = [(FORMAT_LEVEL, 0, "NONE")] if version < 2 else []
    assert [(r.feature, r.error_code, r.error_message) for r in answer.results] == expected
    assert running.log.feed_version == feed, "no broker has to read everything again"


def test_a_level_is_not_lowered_and_kafkas_own_features_are_refused(
    running: Running, client: Connection
) -> None:
    for answer in (
        update(client, 1, upgrade_type=UpgradeType.UNSAFE_DOWNGRADE),
        update(client, 2, "transaction.version"),
        update(client, NEWEST_LEVEL + 1),
    ):
        assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert "no feature was changed" in (answer.error_message or "")
        assert answer.results == []
    assert level_of(running) == NEWEST_LEVEL


def test_it_needs_alter_on_the_cluster(running: Running, client: Connection) -> None:
    deny(running, Operation.ALTER)

    assert update(client).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
