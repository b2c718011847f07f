"""Several brokers of one cluster, a thread each, on stores in memory that they share.

    with running_cluster(3) as brokers, brokers[1].connect() as client:
        ...

`RACKS` are those of brokers 1, 2, 3 and so on.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from tests.broker.running import Running, Shared

CACHE_BYTES_MAX = 1 << 24
RACKS = ("a", "b", "c")


@contextmanager
def running_cluster(
    count: int, settings: Mapping[str, str] | None = None
) -> Iterator[dict[int, Running]]:
    """Brokers by id, all of which know each other."""
    shared = Shared()
    brokers: dict[int, Running] = {}
    with ExitStack() as stack:
        for number in range(1, count + 1):
            rack = RACKS[(number - 1) % len(RACKS)]
            one = Running(settings or {}, CACHE_BYTES_MAX, broker=number, rack=rack, shared=shared)
            one.start()
            stack.callback(one.stop)
            brokers[number] = one
        for one in brokers.values():
            meet(one, brokers)
        yield brokers


def meet(one: Running, brokers: Mapping[int, Running]) -> None:
    one.wait_until(lambda: one.log.live_brokers().keys() == brokers.keys())
