"""Clients never get the descriptors that store and registry need."""

import resource

import pytest

from broker.process.descriptors import CONNECTIONS_MAX, RESERVE, limit_connections, raise_limit
from logstore.config.broker import BrokerSettings


@pytest.mark.parametrize(
    ("asked", "descriptors", "allowed"),
    [
        ("4096", 1024, 1024 - RESERVE),
        ("4096", 65_536, 4096),
        ("4096", resource.RLIM_INFINITY, 4096),
        ("500", 1024, 500),
        ("4096", 64, 1),
    ],
)
def test_connections_leave_a_reserve(asked: str, descriptors: int, allowed: int) -> None:
    settings = BrokerSettings({CONNECTIONS_MAX: asked, "num.partitions": "3"})

    limited = limit_connections(settings, descriptors)

    assert limited.number(CONNECTIONS_MAX) == allowed
    assert limited.number("num.partitions") == 3


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
        assert raise_limit() == hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
