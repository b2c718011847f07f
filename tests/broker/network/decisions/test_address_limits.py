"""Connections of one address are bounded, and counted down when they end."""

from broker.network.decisions.address_limits import AddressLimits

MANY = 2**31 - 1


def test_an_address_has_no_more_connections_than_its_limit() -> None:
    limits = AddressLimits(2, {"10.0.0.7": 1, "10.0.0.8": MANY})

    assert [limits.enter("10.0.0.1") is None for _ in range(3)] == [True, True, False]
    assert [limits.enter("10.0.0.7") is None for _ in range(2)] == [True, False]
    assert [limits.enter("10.0.0.8") is None for _ in range(3)] == [True, True, True]
    assert limits.enter("10.0.0.2") is None


def test_an_ended_connection_makes_room_for_another() -> None:
    limits = AddressLimits(1, {})

    assert limits.enter("10.0.0.1") is None
    assert "max.connections.per.ip=1" in str(limits.enter("10.0.0.1"))
    limits.leave("10.0.0.1")
    assert limits.enter("10.0.0.1") is None


def test_an_ipv4_client_of_an_ipv6_socket_is_the_same_client() -> None:
    limits = AddressLimits(1, {})

    assert limits.enter("::ffff:10.0.0.1") is None
    assert "10.0.0.1" in str(limits.enter("10.0.0.1"))
    limits.leave("10.0.0.1")
    assert limits.enter("fe80::1%eth0") is None
    assert limits.enter("fe80::1%eth1") is not None
