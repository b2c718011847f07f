"""Places of connections to the pages: many of one address take none of another's."""

from broker.http.decisions.places import (
    ASKERS_MAX,
    ASKERS_OF_ADDRESS_MAX,
    KEPT_FOR_LOOPBACK,
    NEWCOMERS_MAX,
    Places,
)


def test_the_address_with_most_silent_connections_makes_room() -> None:
    places: Places[int] = Places()
    assert places.enter(0, "10.0.0.1") is None
    for number in range(1, NEWCOMERS_MAX):
        assert places.enter(number, "10.0.0.2" if number % 2 else "::ffff:10.0.0.2") is None
    assert places.enter(100, "10.0.0.3") == 1
    assert places.enter(101, "10.0.0.3") == 2
    assert len(places) == NEWCOMERS_MAX


def test_one_address_waits_for_few_pages() -> None:
    places: Places[int] = Places()
    for number in range(ASKERS_OF_ADDRESS_MAX):
        assert asks(places, number, "10.0.0.1") is None
    assert asks(places, 100, "10.0.0.1") is not None
    assert asks(places, 101, "10.0.0.2") is None
    places.leave(0)
    assert asks(places, 102, "10.0.0.1") is None


def test_places_are_kept_for_this_machine() -> None:
    places: Places[int] = Places()
    for number in range(ASKERS_MAX - KEPT_FOR_LOOPBACK):
        assert asks(places, number, f"10.0.0.{number}") is None
    assert asks(places, 100, "10.0.1.1") is not None
    for number in range(KEPT_FOR_LOOPBACK):
        assert asks(places, 200 + number, "127.0.0.1") is None
    assert asks(places, 300, "::1") is not None


def asks(places: Places[int], number: int, host: str) -> str | None:
    places.enter(number, host)
    return places.ask(number)
