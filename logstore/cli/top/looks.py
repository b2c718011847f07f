"""Looks at the metrics of all brokers at the same time, by HTTP.

A name that stands for several addresses, as a headless Service or Cloud Map has it, is all of them;
names are looked up again at each look, and an address that was seen once stays, so that a broker
that is gone is shown as gone.
"""

import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException

from logstore.cli.command import BootstrapAddress
from logstore.cli.decisions.metrics_page import MetricsPage, parse_metrics
from logstore.cli.decisions.top_figures import BrokerLook
from logstore.errors import Unavailable
from logstore.ports.clock import Clock

TIMEOUT_S = 3.0
PAGE_BYTES_MAX = 64 << 20
THREADS_MAX = 16
ADDRESSES_MAX = 200
HTTP_OK = 200


class BrokerLooks:
    def __init__(self, targets: Sequence[BootstrapAddress], clock: Clock) -> None:
        self._targets = targets
        self._clock = clock
        self._seen: dict[BootstrapAddress, None] = {}

    def look(self) -> dict[str, BrokerLook]:
        """By address, in the order in which they were seen first."""
        for target in self._targets:
            for address in _addresses(target):
                if len(self._seen) < ADDRESSES_MAX:
                    self._seen.setdefault(address)
        with ThreadPoolExecutor(min(THREADS_MAX, len(self._seen))) as threads:
            looks = threads.map(self._look_at, self._seen)
            return {str(address): look for address, look in zip(self._seen, looks, strict=True)}

    def _look_at(self, address: BootstrapAddress) -> BrokerLook:
        try:
            page = _page_of(address)
        except Unavailable as error:
            return BrokerLook(self._clock.monotonic_s(), None, str(error))
        return BrokerLook(self._clock.monotonic_s(), page)


def _addresses(target: BootstrapAddress) -> list[BootstrapAddress]:
    """Where its name leads; itself if it leads nowhere, which its look then says."""
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except OSError:
        return [target]
    hosts = list(dict.fromkeys(str(place[0]) for *_, place in found))
    # A machine with two kinds of address is one broker: the first of them, as clients do.
    family = ":" in hosts[0]
    return [BootstrapAddress(host, target.port) for host in hosts if (":" in host) == family]


def _page_of(address: BootstrapAddress) -> MetricsPage:
    """Raises `Unavailable`."""
    connection = HTTPConnection(address.host, address.port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/metrics")
        response = connection.getresponse()
        body = response.read(PAGE_BYTES_MAX + 1)
    except (OSError, HTTPException) as error:
        raise Unavailable(f"no answer: {getattr(error, 'strerror', '') or error}") from None
    finally:
        connection.close()
    if response.status != HTTP_OK or len(body) > PAGE_BYTES_MAX:
        raise Unavailable(f"no metrics there: status={response.status} bytes={len(body)}")
    return parse_metrics(body.decode(errors="replace"))
