"""A broker has confirmed a change when it says so, or can serve nothing any more."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.formats.broker_row import NO_FEED, BrokerRow, BrokerStatus
from logstore.formats.chain_row import ChainRow, ChainStatus
from logstore.protocol.topics.confirmation import (
    HEARTBEATS_WITHOUT_FEED,
    Confirmation,
    Unconfirmed,
)

OWN, OTHER, VERSION = 7, 8, 40
ROW = BrokerRow(epoch=OTHER, heartbeat=5, host="h", port=1, rack="", lock="l", feed=VERSION - 1)
OPEN = ChainRow(broker=2, status=ChainStatus.OPEN)
CHAINS = {OWN: ChainRow(broker=1, status=ChainStatus.OPEN), OTHER: OPEN}


def look(row: BrokerRow | None, chain: ChainRow = OPEN) -> list[Unconfirmed]:
    brokers = {} if row is None else {2: row}
    return Confirmation(VERSION, OWN).look({**CHAINS, OTHER: chain}, brokers)


def test_a_broker_that_has_not_read_the_feed_so_far_is_waited_for() -> None:
    assert look(ROW) == [Unconfirmed(2, OTHER, can_answer=True)]
    assert look(replace(ROW, feed=VERSION)) == []


@pytest.mark.parametrize(
    ("chain", "is_waited_for"), [(ChainStatus.FENCED, True), (ChainStatus.SEALED, False)]
)
def test_only_a_seal_ends_what_a_silent_broker_may_acknowledge(
    chain: ChainStatus, is_waited_for: bool
) -> None:
    row = replace(ROW, status=BrokerStatus.FENCED)
    expected = [Unconfirmed(2, OTHER, can_answer=False)] if is_waited_for else []

    assert look(row, replace(OPEN, status=chain)) == expected


def test_a_broker_that_stopped_by_itself_is_not_waited_for() -> None:
    assert look(replace(ROW, status=BrokerStatus.STOPPED)) == []


def test_a_predecessor_is_waited_for_until_its_successor_has_sealed_it() -> None:
    row = replace(ROW, epoch=OTHER + 1, feed=VERSION)

    assert look(row) == [Unconfirmed(2, OTHER, can_answer=False)]
    assert look(row, replace(OPEN, status=ChainStatus.SEALED)) == []


def test_a_broker_that_is_about_to_start_reads_all_topics_later() -> None:
    assert look(None) == []
    assert look(replace(ROW, epoch=OTHER - 1)) == []


def test_a_broker_that_starts_after_the_first_look_is_not_waited_for() -> None:
    confirmation = Confirmation(VERSION, OWN)
    assert confirmation.look({OWN: OPEN}, {}) == []

    assert confirmation.look(CHAINS, {2: ROW}) == []
    assert confirmation.is_complete


def test_a_broker_of_a_release_that_cannot_say_is_given_two_heartbeats() -> None:
    confirmation = Confirmation(VERSION, OWN)
    old = replace(ROW, feed=NO_FEED)
    for more in range(HEARTBEATS_WITHOUT_FEED):
        assert confirmation.look(CHAINS, {2: replace(old, heartbeat=5 + more)})

    assert not confirmation.look(CHAINS, {2: replace(old, heartbeat=5 + HEARTBEATS_WITHOUT_FEED)})


@given(st.integers(VERSION - 2, VERSION + 2))
def test_an_answer_counts_if_it_is_of_that_version_or_a_later_one(version: int) -> None:
    confirmation = Confirmation(VERSION, OWN)
    confirmation.look(CHAINS, {2: ROW})
    assert not confirmation.is_complete
    confirmation.answered(OTHER, version)

    assert confirmation.is_complete == (version >= VERSION)
