"""What every test gets: Hypothesis profiles, virtual time, seeds for simulations, limits by tier.

A test that is an `async def` runs in virtual time.

A test with an argument `seed` runs once per seed: `@pytest.mark.seeds(n)` of them or a default,
or as many as `--seeds` says, from `--first-seed` on. When one fails, the summary says how many
seeds it took. Those of `@pytest.mark.seeds(n, daily=True)` are other ones each day: they begin at
`--first-daily-seed`, which the date gives (UTC) where no option names it, and the summary says it.
With `@pytest.mark.seeds(n, fast=k)` only the first k of them are in the fast tier, the others are
slow.

A property gets 20 examples in `make check` (profile `smoke`), 100 in `make test`, 5,000 in a
campaign, or as many as its own settings say.
"""

import gc
import inspect
import os
import re
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings

from logstore.ports.clock import SystemClock
from logstore.testing.interruptible import heed_signals
from logstore.testing.virtual_loop import run
from tests.servers.short_java import set_spark_variables
from tools.tiers import first_daily_seed

SEEDS = 20
TIMEOUT_S = 600  # of a test in the tiers below; the fast ones have pyproject.toml's limit
LOWEST_PRIORITY = 19
PATIENT_TIMEOUT_S = 1800  # at the lowest priority: it waits for all others
LONG_TIERS = ("slow", "spark", "clients")

# A loaded machine must not fail a test: no deadline, no check of speed. CI runs the same examples
# each time; everybody else looks at new ones. A planted bug needs no smallest example.
SHRINKS = os.environ.get("SHRINK") != "no"
settings.register_profile(
    "project",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    phases=tuple(Phase) if SHRINKS else (Phase.explicit, Phase.reuse, Phase.generate),
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "campaign", settings.get_profile("project"), derandomize=False, max_examples=5_000
)
settings.register_profile("smoke", settings.get_profile("project"), max_examples=20)
settings.load_profile("project")


def pytest_configure(config: pytest.Config) -> None:
    """The seeds of the day, once for all test processes; where Spark is, and options of its Java;
    and signals as a terminal gives them, for the programs that tests start and interrupt.
    """
    if config.option.first_daily_seed is None:
        config.option.first_daily_seed = first_daily_seed(SystemClock().now_ms())
    set_spark_variables()
    heed_signals()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine runs in virtual time."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", type=int, help="seeds per simulation, instead of each one's own")
    parser.addoption("--first-seed", type=int, default=0, help="the first of them")
    parser.addoption("--first-daily-seed", type=int, help="the first of those of the day")
    parser.addoption(
        "--passed-in",
        metavar="REPORT",
        action="append",
        default=[],
        help="of the same tests without a planted bug",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("seeds")
    asked = metafunc.config.getoption("seeds")
    count = asked if asked is not None else marker.args[0] if marker else SEEDS
    first = metafunc.config.getoption("first_seed")
    if marker and marker.kwargs.get("daily"):
        # A campaign names its seeds, and other tests of the same world play them.
        count = 0 if asked is not None else count
        first = metafunc.config.getoption("first_daily_seed")
    fast = marker.kwargs.get("fast", count) if marker else count
    seeds = [
        pytest.param(
            first + at, marks=() if at < fast else pytest.mark.slow, id=f"seed={first + at}"
        )
        for at in range(count)
    ]
    metafunc.parametrize("seed", seeds)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    timeout_s = PATIENT_TIMEOUT_S if os.nice(0) >= LOWEST_PRIORITY else TIMEOUT_S
    for item in items:
        long = any(item.get_closest_marker(tier) for tier in LONG_TIERS)
        if long and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(timeout_s))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collects without the garbage collector: a sixth of the CPU seconds, and all of it stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """What a test found, for the summary of the run: also of a test that passes."""
    return lambda text: request.node.user_properties.append(("found", text))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for report in terminalreporter.getreports("passed"):
        for name, text in report.user_properties:
            if name == "found":
                terminalreporter.write_line(f"{report.nodeid}\n{text}\n")
    reports = {kind: terminalreporter.getreports(kind) for kind in ("passed", "failed")}
    played = {kind: [s for one in known for s in _seeds_of(one)] for kind, known in reports.items()}
    first_daily = config.getoption("first_daily_seed")
    if any(seed >= first_daily for seeds in played.values() for seed in seeds):
        terminalreporter.write_line(f"seeds of the day: --first-daily-seed {first_daily}")
    failed = [seed for seed in played["failed"] if seed < first_daily]
    if failed:
        # The form that tools/planted.py reads.
        count = min(failed) - config.getoption("first_seed") + 1
        terminalreporter.write_line(f"seeds to detection: {count}")


def _seeds_of(report: pytest.TestReport) -> Iterator[int]:
    for found in re.findall(r"\bseed=(\d+)", report.nodeid):
        yield int(found)
