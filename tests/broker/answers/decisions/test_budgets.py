"""Every API that is served has a budget, and its handler cannot be asked for more."""

import pytest

from broker.answers.decisions.budgets import (
    BUDGETS,
    ITEMS_MAX,
    UNITS_MAX,
    check_answer,
    clamp_partitions,
    over_budget,
)
from broker.answers.decisions.refuse import Refuse
from broker.handlers.served_requests import HANDLERS
from logstore.config.broker import BrokerSettings
from logstore.protocol.topics.life import PARTITIONS_MAX
from logstore.wire.errors import ErrorCode

CREATE_TOPICS = 19
PLANNED = {30, 31, CREATE_TOPICS, 20, 21, 32, 33, 37, 43, 44, 45, 49, 51, 57, 64}
"""APIs whose items cost so much that handlers ask, or that the registry bounds."""

SMALLEST_ITEM_BYTES = 4


def test_every_handler_has_a_budget_and_every_budget_a_handler() -> None:
    assert set(BUDGETS) == set(HANDLERS)
    for key, row in HANDLERS.items():
        assert row.items_max == BUDGETS[key].items_max <= ITEMS_MAX


@pytest.mark.parametrize("key", sorted(set(BUDGETS) - PLANNED))
def test_a_whole_frame_of_cheap_items_fits(key: int) -> None:
    frame_bytes = BrokerSettings({}).number("logstore.request.max.bytes")

    assert frame_bytes // SMALLEST_ITEM_BYTES * BUDGETS[key].item_units <= UNITS_MAX


def test_more_partitions_than_kafka_creates_at_once_are_refused() -> None:
    assert over_budget(CREATE_TOPICS, 10_000) is None
    refusal = over_budget(CREATE_TOPICS, 10_001)
    assert refusal is not None
    assert refusal.code == ErrorCode.POLICY_VIOLATION


def test_one_topic_with_too_many_partitions_is_its_own_fault() -> None:
    assert [clamp_partitions(count) for count in (-1, 0, 7, 1 << 30)] == [1, 1, 7, PARTITIONS_MAX]


def test_an_answer_that_is_full_takes_no_more() -> None:
    most = BUDGETS[32].answer_bytes_max
    check_answer(32, most - 1)
    with pytest.raises(Refuse, match="ask for fewer"):
        check_answer(32, most)
