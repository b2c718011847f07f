"""How many connections one address may have: one client must not take those of all others. Pure."""

from collections.abc import Mapping

from logstore.config.address_overrides import plain_address


class AddressLimits:
    def __init__(self, each_max: int, overrides: Mapping[str, int]) -> None:
        self._counts: dict[str, int] = {}
        self.limit(each_max, overrides)

    def limit(self, each_max: int, overrides: Mapping[str, int]) -> None:
        """From now on; `overrides`: of single addresses, as `plain_address` writes them."""
        self._each_max = each_max
        self._overrides = overrides

    def enter(self, host: str) -> str | None:
        """Count one connection of `host`; why it may not stay and is not counted, if so."""
        address = _address(host)
        count = self._counts.get(address, 0)
        count_max = self._overrides.get(address, self._each_max)
        if count >= count_max:
            return f"too many connections of {address}: max.connections.per.ip={count_max}"
        self._counts[address] = count + 1
        return None

    def leave(self, host: str) -> None:
        """One connection that was counted has ended."""
        address = _address(host)
        left = self._counts[address] - 1
        if left:
            self._counts[address] = left
        else:
            del self._counts[address]


def _address(host: str) -> str:
    try:
        return plain_address(host)
    except ValueError:  # a test's pair of sockets has no address
        return host
