"""`max.connections.per.ip.overrides`: how many connections single addresses may have. Pure."""

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address

from logstore.config.kinds import InvalidConfig

OVERRIDES = "max.connections.per.ip.overrides"
FORM = "ADDRESS:COUNT, separated by commas, such as 10.0.0.7:500,[2001:db8::1]:50"


def parse_overrides(text: str) -> Mapping[str, int]:
    """Connections by address, as `plain_address` writes it. Raises `InvalidConfig`.

    Kafka resolves host names once, at its start; addresses change later, so none is taken here.
    """
    overrides = {}
    for item in filter(None, (item.strip() for item in text.split(","))):
        host, colon, count = item.rpartition(":")
        try:
            address = plain_address(host.removeprefix("[").removesuffix("]"))
        except ValueError:
            raise _invalid(text, f"{host or item!r} is no IP address") from None
        if not colon or not (count.isascii() and count.isdecimal()):
            raise _invalid(text, f"{item!r} has no count")
        overrides[address] = int(count)
    return overrides


def plain_address(host: str) -> str:
    """One text per address: an IPv4 client of an IPv6 socket is the same. Raises `ValueError`."""
    address: IPv4Address | IPv6Address = ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


def is_loopback(host: str) -> bool:
    """Whether an address, or `localhost`, is reached from this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(plain_address(host)).is_loopback
    except ValueError:
        return False


def _invalid(text: str, why: str) -> InvalidConfig:
    return InvalidConfig(
        f"invalid value {text!r} for configuration {OVERRIDES}: {why}; give {FORM}"
    )
