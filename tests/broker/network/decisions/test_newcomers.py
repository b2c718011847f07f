"""Newcomers: silence takes no place from clients, and a large first request may be slow."""

from dataclasses import dataclass

import pytest

from broker.network.decisions.newcomers import COMING_MAX, PROGRESS_BYTES, SILENT_S, Newcomers

LIMIT_S = 10.0


@dataclass(eq=False)
class Peer:
    arrived_bytes: int = 0
    is_read: bool = True


def test_a_newcomer_is_late_after_its_time_and_never_before() -> None:
    newcomers: Newcomers[Peer] = Newcomers()
    first, second, third = Peer(), Peer(), Peer()
    newcomers.enter(first, 0.0, LIMIT_S)
    newcomers.enter(second, 1.0, LIMIT_S)
    newcomers.enter(third, 2.0, LIMIT_S)
    newcomers.leave(second)
    assert newcomers.next_s == LIMIT_S
    assert newcomers.take_late(9.9, LIMIT_S) == []
    assert newcomers.take_late(11.0, LIMIT_S) == [first]
    assert newcomers.take_late(12.0, LIMIT_S) == [third]
    assert newcomers.next_s is None


def test_a_large_request_that_arrives_has_more_time_and_one_that_stops_has_not() -> None:
    newcomers: Newcomers[Peer] = Newcomers()
    peer = Peer()
    newcomers.enter(peer, 0.0, LIMIT_S)
    peer.arrived_bytes += PROGRESS_BYTES
    assert newcomers.take_late(10.0, LIMIT_S) == []
    peer.arrived_bytes += PROGRESS_BYTES - 1
    assert newcomers.take_late(20.0, LIMIT_S) == [peer]


def test_a_newcomer_that_we_hold_back_is_not_late() -> None:
    newcomers: Newcomers[Peer] = Newcomers()
    peer = Peer(is_read=False)
    newcomers.enter(peer, 0.0, LIMIT_S)
    assert newcomers.take_late(10.0, LIMIT_S) == []
    peer.is_read = True
    assert newcomers.take_late(20.0, LIMIT_S) == [peer]


@pytest.mark.parametrize("others", [1, COMING_MAX])
def test_the_first_of_the_silent_makes_room_and_a_client_that_is_coming_does_not(
    others: int,
) -> None:
    newcomers: Newcomers[Peer] = Newcomers()
    first = Peer()
    newcomers.enter(first, 0.0, LIMIT_S)
    for _ in range(others):
        newcomers.enter(Peer(), 0.5, LIMIT_S)
    is_many = others == COMING_MAX
    assert newcomers.make_room(SILENT_S / 2) is (first if is_many else None)
    assert newcomers.make_room(SILENT_S) is (None if is_many else first)
