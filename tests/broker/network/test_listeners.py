"""Addresses: how they are written, which ones clients get, and ports that are taken."""

from dataclasses import dataclass

import pytest

from broker.network.listeners import ListenAddress, bind, parse_address, plan_listeners
from logstore.errors import Invalid, Refused


@dataclass
class Reached:
    local_host: str


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9092", ListenAddress("PLAINTEXT", "127.0.0.1", 9092)),
        ("inner://:0", ListenAddress("INNER", "127.0.0.1", 0)),
        ("OUT://example.org:65535", ListenAddress("OUT", "example.org", 65535)),
        ("[::1]:9092", ListenAddress("PLAINTEXT", "::1", 9092)),
    ],
)
def test_an_address_is_name_host_and_port(text: str, address: ListenAddress) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "host", "host:", "host:x", "h:65536", "h:-1", "://h:1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_address(text)


def test_advertised_addresses_belong_to_listeners_by_name() -> None:
    assert plan_listeners([], []) == [(ListenAddress("PLAINTEXT", "127.0.0.1", 9092), None)]
    assert plan_listeners(["A://:1", "B://:2"], ["b://h:9"]) == [
        (ListenAddress("A", "127.0.0.1", 1), None),
        (ListenAddress("B", "127.0.0.1", 2), ListenAddress("B", "h", 9)),
    ]
    ((_, advertised),) = plan_listeners(["A://:1"], ["h:9"])
    assert advertised is not None and advertised.host == "h"


@pytest.mark.parametrize(
    ("listen", "advertise"), [(["A://:1", "A://:2"], []), (["A://:1", "B://:2"], ["C://h:9"])]
)
def test_names_must_be_distinct_and_known(listen: list[str], advertise: list[str]) -> None:
    with pytest.raises(Invalid):
        plan_listeners(listen, advertise)


def test_a_port_that_is_taken_is_refused_in_one_line() -> None:
    first = bind(parse_address("127.0.0.1:0"), None)
    first.socket.listen()
    try:
        with pytest.raises(Refused, match=f"127.0.0.1:{first.port}: .*; choose another --listen"):
            bind(ListenAddress("A", "127.0.0.1", first.port), None)
    finally:
        first.socket.close()


def test_a_host_that_is_not_here_is_refused() -> None:
    with pytest.raises(Refused, match="cannot listen on"):
        bind(parse_address("host.invalid:0"), None)


def test_clients_get_the_advertised_address_else_the_one_they_connected_to() -> None:
    here = Reached("10.1.2.3")
    wildcard = bind(parse_address("0.0.0.0:0"), None)
    plain = bind(parse_address("127.0.0.1:0"), None)
    reported = bind(parse_address("127.0.0.1:0"), ListenAddress("A", "outside", 0))
    for listener in (wildcard, plain, reported):
        listener.socket.close()

    assert wildcard.address_for(here) == ("10.1.2.3", wildcard.port)
    assert plain.address_for(here) == ("127.0.0.1", plain.port)
    assert reported.address_for(here) == reported.public_address == ("outside", reported.port)
    assert wildcard.public_address[0] != "0.0.0.0"
    assert str(plain) == f"127.0.0.1:{plain.port}"
