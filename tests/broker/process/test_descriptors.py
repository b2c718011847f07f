"""Clients never get the descriptors that store and registry need."""

import resource
import sys

import pytest

from broker.process.descriptors import (
    CONNECTIONS_MAX,
    CONNECTIONS_MIN,
    FINITE_LIMITS,
    RESERVE,
    UNLIMITED,
    limit_connections,
    raise_limit,
)
from logstore.config.broker import BrokerSettings
from logstore.errors import Refused


@pytest.mark.parametrize(
    ("asked", "descriptors", "allowed"),
    [
        ("4096", 1024, 1024 - RESERVE),
        ("4096", 65_536, 4096),
        ("4096", resource.RLIM_INFINITY, 4096),
        ("500", 1024, 500),
        ("4096", RESERVE + CONNECTIONS_MIN, CONNECTIONS_MIN),
        ("10", RESERVE + 10, 10),
    ],
)
def test_connections_leave_a_reserve(asked: str, descriptors: int, allowed: int) -> None:
    settings = BrokerSettings({CONNECTIONS_MAX: asked, "num.partitions": "3"})

    limited = limit_connections(settings, descriptors)

    assert limited.number(CONNECTIONS_MAX) == allowed
    assert limited.number("num.partitions") == 3


@pytest.mark.parametrize(("asked", "descriptors"), [("4096", 256), ("4096", 319), ("10", 265)])
def test_a_limit_that_leaves_too_few_is_refused_with_the_command_that_raises_it(
    asked: str, descriptors: int
) -> None:
    settings = BrokerSettings({CONNECTIONS_MAX: asked})
    with pytest.raises(Refused) as refused:
        limit_connections(settings, descriptors)

    assert f"RLIMIT_NOFILE={descriptors}" in str(refused.value)
    assert f"ulimit -n {RESERVE + int(asked)}" in str(refused.value)


def test_where_unlimited_is_more_than_the_system_allows_a_large_limit_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As macOS does it, whose hard limit is unlimited and cannot be had."""
    allowed = FINITE_LIMITS[-1]

    def set_limit(_: int, limits: tuple[int, int]) -> None:
        if limits[0] == UNLIMITED or limits[0] > allowed:
            raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, UNLIMITED))
    monkeypatch.setattr(resource, "setrlimit", set_limit)

    assert raise_limit() == allowed


def test_what_a_log_line_needs_is_loaded_before_descriptors_run_out() -> None:
    raise_limit()

    assert {"encodings.unicode_escape", "encodings.idna"} <= sys.modules.keys()


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
        assert raise_limit() == hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
