"""Is any broker there? Asked once per Spark application, before the first batch: a user who has
started none, or names a wrong address, waits seconds for the error, not the minute that a restart
may take.

All addresses are asked side by side, so one that drops all packets holds up no other.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from random import Random

from logstore.errors import LogstoreError, Retryable, Unavailable
from logstore.ports.clock import Clock, blocking_sleep_s
from logstore.retry import pause_s
from logstore.staging.brokers import METADATA, BrokerAddress, BrokerLink
from logstore.wire.framing.client import Connection
from logstore.wire.messages.metadata import MetadataRequest

REACH_S = 4.0
"""For an answer, however many addresses there are."""

_ASKED_MAX = 32
_NAMED_MAX = 5
_TIMEOUT_S_MIN = 0.2


def reach_broker(
    find_brokers: Callable[[], Sequence[BrokerAddress]],
    *,
    clock: Clock,
    rng: Random,
    sleep_s: Callable[[float], None] = blocking_sleep_s,
    open_connection: Callable[[str, int, float], BrokerLink] = Connection.open,
    reach_s: float = REACH_S,
) -> None:
    """Return once a broker has answered. Raises `Retryable`, which names the addresses, where none
    does in `reach_s`, and what `find_brokers` raises but for what passes."""
    deadline_s = clock.monotonic_s() + reach_s
    failures = 0
    while True:
        addresses: Sequence[BrokerAddress] = ()
        try:
            addresses = find_brokers()
            trouble: LogstoreError | None = Retryable("the registry names none")
            if addresses:
                left_s = max(deadline_s - clock.monotonic_s(), _TIMEOUT_S_MIN)
                trouble = _ask_all(addresses[:_ASKED_MAX], left_s, open_connection)
        except Unavailable as error:
            trouble = error
        if trouble is None:
            return
        failures += 1
        wait_s = pause_s(failures, rng)
        if clock.monotonic_s() + wait_s > deadline_s:
            raise Retryable(_no_broker(addresses, reach_s, trouble)) from trouble
        sleep_s(wait_s)


def _ask_all(
    addresses: Sequence[BrokerAddress],
    timeout_s: float,
    open_connection: Callable[[str, int, float], BrokerLink],
) -> LogstoreError | None:
    """Returns None as soon as one of them has answered, else the last error."""

    def ask(address: BrokerAddress) -> LogstoreError | None:
        try:
            connection = open_connection(*address, timeout_s)
            try:
                connection.call(METADATA, MetadataRequest([], False))
            finally:
                connection.close()
        except LogstoreError as error:
            return error
        return None

    threads = ThreadPoolExecutor(len(addresses))
    try:
        trouble: LogstoreError | None = None
        for answer in as_completed([threads.submit(ask, one) for one in addresses]):
            trouble = answer.result()
            if trouble is None:
                return None
        return trouble
    finally:
        threads.shutdown(wait=False)


def _no_broker(addresses: Sequence[BrokerAddress], reach_s: float, trouble: LogstoreError) -> str:
    named = ",".join(f"{host}:{port}" for host, port in addresses[:_NAMED_MAX]) or "none"
    more = f" and {len(addresses) - _NAMED_MAX} more" if len(addresses) > _NAMED_MAX else ""
    return (
        f"no broker answers: addresses={named}{more} within_s={reach_s:g} last={trouble}; start "
        "one with logstore serve, or name one that can be reached from here by the option "
        "kafka.bootstrap.servers"
    )
