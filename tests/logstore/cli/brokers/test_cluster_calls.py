"""Which errors of brokers a command tries again after."""

import pytest

from logstore.cli.brokers.cluster_calls import Moved, check
from logstore.errors import Invalid
from logstore.wire.errors import ErrorCode


def test_a_leader_that_does_not_know_its_topic_yet_is_asked_again() -> None:
    with pytest.raises(Moved, match="cannot read orders-0: error=UNKNOWN_TOPIC_OR_PARTITION"):
        check(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "read orders-0", is_led=True)


def test_a_topic_that_metadata_does_not_know_is_final() -> None:
    with pytest.raises(Invalid):
        check(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "look up topic orders")


def test_other_errors_are_final_or_not_wherever_they_come_from() -> None:
    check(ErrorCode.NONE, "read orders-0", is_led=True)
    for is_led in (False, True):
        with pytest.raises(Moved):
            check(ErrorCode.NOT_LEADER_OR_FOLLOWER, "read orders-0", is_led=is_led)
        with pytest.raises(Invalid):
            check(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "read orders-0", is_led=is_led)
