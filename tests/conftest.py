"""What every test gets: Hypothesis profiles, seeds for simulations, time limits by tier.

A test with an argument `seed` runs once per seed: `@pytest.mark.seeds(n)` of them or a default,
or as many as `--seeds` says, from `--first-seed` on. When one fails, the summary says how many
seeds it took.
"""

import os
import re
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

SEEDS = 20
TIMEOUT_S = 600  # of a test in the tiers below; the fast ones have pyproject.toml's limit
LONG_TIERS = ("slow", "spark", "clients")

# A loaded machine must not fail a test: no deadline, no check of speed. CI runs the same examples
# each time; everybody else looks at new ones.
settings.register_profile(
    "project",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "campaign", settings.get_profile("project"), derandomize=False, max_examples=5_000
)
settings.load_profile("project")


def pytest_configure() -> None:
    """Signals as a terminal gives them, for the programs that tests start and interrupt.

    A run in the background of a script has SIGINT ignored, and all its children inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", type=int, help="seeds per simulation, instead of each one's own")
    parser.addoption("--first-seed", type=int, default=0, help="the first of them")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("seeds")
    asked = metafunc.config.getoption("seeds")
    count = asked if asked is not None else marker.args[0] if marker else SEEDS
    first = metafunc.config.getoption("first_seed")
    metafunc.parametrize("seed", range(first, first + count), ids=lambda seed: f"seed={seed}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        long = any(item.get_closest_marker(tier) for tier in LONG_TIERS)
        if long and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    failed = [
        seed for report in terminalreporter.getreports("failed") for seed in _seeds_of(report)
    ]
    if failed:
        # The form that tools/planted.py reads.
        count = min(failed) - config.getoption("first_seed") + 1
        terminalreporter.write_line(f"seeds to detection: {count}")


def _seeds_of(report: pytest.TestReport) -> Iterator[int]:
    for found in re.findall(r"\bseed=(\d+)", report.nodeid):
        yield int(found)
