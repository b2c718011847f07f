"""When a broker has a compaction child, what it takes from it, and what it says of it."""

import asyncio
import os
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from broker.upkeep.compaction_child import CompactionChild, child_environment, compact_command
from broker.upkeep.compaction_counts import (
    RESTART_MAX_S,
    SAID_MAX,
    CompactionCounts,
    Restarts,
)
from logstore.config.broker import BrokerSettings
from logstore.config.compaction_interval import EVERY, parse_every
from logstore.config.kinds import InvalidConfig
from logstore.ports.clock import SystemClock


@dataclass
class Controller:
    is_active: bool


def child(stop: asyncio.Event) -> CompactionChild:
    return CompactionChild(
        ["true"], {}, counts=CompactionCounts(), stop=stop, clock=SystemClock(),
        rng=random.Random(0),
    )  # fmt: skip


def test_a_child_is_wanted_where_the_controller_is_and_until_the_broker_stops() -> None:
    stop = asyncio.Event()
    compaction, controller = child(stop), Controller(is_active=False)
    wanted = [compaction.is_wanted]
    compaction.watch(controller)
    wanted.append(compaction.is_wanted)
    controller.is_active = True
    wanted.append(compaction.is_wanted)
    compaction.watch(Controller(is_active=False))  # a new epoch of the same broker
    wanted.append(compaction.is_wanted)
    compaction.watch(controller)
    stop.set()
    wanted.append(compaction.is_wanted)

    assert wanted == [False, False, True, False, False]


RUNS_AND_WAITS = """
import json, sys
for errors in ([], ["topic t: damaged"]):
    print(json.dumps({"rows": 2, "bytes_in": 10, "errors": errors}), flush=True)
sys.stdin.read()
"""
DIES = "import sys; sys.exit('logstore: the table is gone')"


def beside(program: str, is_over: Callable[[CompactionCounts], bool]) -> CompactionCounts:
    """The counts when they are so, of a broker that is the controller with `program` beside it."""
    counts, clock = CompactionCounts(), SystemClock()

    async def broker() -> int:
        while not is_over(counts):
            await clock.sleep_s(0.01)
        return 7

    async def run() -> int:
        compaction = CompactionChild(
            [sys.executable, "-c", program], os.environ, counts=counts, stop=asyncio.Event(),
            clock=clock, rng=random.Random(0),
        )  # fmt: skip
        compaction.watch(Controller(is_active=True))
        return await compaction.beside(broker())

    assert asyncio.run(run()) == 7
    return counts


def test_runs_of_a_child_are_counted_and_it_ends_with_the_broker() -> None:
    counts = beside(RUNS_AND_WAITS, lambda counts: counts.failed_runs > 0)

    assert (counts.good_runs, counts.failed_runs, counts.records) == (1, 1, 4)
    assert not counts.is_running


def test_a_child_that_dies_starts_again_and_each_trouble_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counts = beside(DIES, lambda counts: counts.deaths > 1)

    assert counts.deaths == 2
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert sorted(line.partition(";")[0] for line in said) == [
        "compaction died: exit code 1",
        "compaction: the table is gone",
    ]


def test_a_child_that_cannot_be_started_is_said(caplog: pytest.LogCaptureFixture) -> None:
    counts, stop = CompactionCounts(), asyncio.Event()
    compaction = CompactionChild(
        ["/nowhere/python"], {}, counts=counts, stop=stop, clock=SystemClock(),
        rng=random.Random(0),
    )  # fmt: skip

    async def broker() -> int:
        while not counts.deaths:
            await SystemClock().sleep_s(0.01)
        return 0

    async def run() -> None:
        compaction.watch(Controller(is_active=True))
        await compaction.beside(broker())

    asyncio.run(run())
    assert "it cannot be started: No such file or directory" in caplog.text


def test_the_child_has_the_settings_of_the_store_and_none_on_its_command_line() -> None:
    environment = {
        "PATH": "/bin",
        "LOGSTORE_STORAGE_REGION": "of the environment",
        "LOGSTORE_STORAGE_PROFILE_FILE": "/run/secrets/profile",
        "LOGSTORE_CACHE_BYTES": "1048576",
    }
    storage = {"storage.region": "eu-west-1", "storage.profile": "secret"}

    assert child_environment(environment, storage) == {
        "PATH": "/bin",
        "LOGSTORE_STORAGE_REGION": "eu-west-1",
        "LOGSTORE_STORAGE_PROFILE": "secret",
        "LOGSTORE_CACHE_BYTES": "1048576",
    }
    assert not {"eu-west-1", "secret"} & set(compact_command("s3://b/p", "1m"))


def test_runs_are_counted_and_a_failed_topic_makes_a_failed_run() -> None:
    counts = CompactionCounts()

    assert counts.add_run({"rows": 3, "bytes_in": 100, "errors": []}, 5_000)
    failed = {"rows": 2, "bytes_in": 50, "errors": ["topic t: damaged"]}
    cleaned = {"cleaned_bytes": 70, "dropped_rows": 4, "uncleanable_partitions": 1}
    cleaned["max_compaction_delay_secs"] = 9
    assert not counts.add_run({**failed, **cleaned}, 6_000)
    for odd in (["no run"], {"rows": None}, {"rows": "3"}, {"bytes_in": [1]}):
        assert not counts.add_run(odd, 7_000)
    assert counts == CompactionCounts(
        good_runs=1,
        failed_runs=1,
        records=5,
        bytes_in=150,
        last_good_ms=5_000,
        cleaned_bytes=70,
        dropped_rows=4,
        uncleanable=1,
        clean_delay_s=9,
    )
    counts.ended()
    assert (counts.uncleanable, counts.clean_delay_s) == (0, 0), "another broker's child knows"
    assert counts.failed_runs == 1


def test_deaths_in_a_row_are_said_once_and_wait_longer() -> None:
    restarts = Restarts(random.Random(0))
    waits, said = zip(*(restarts.after_death() for _ in range(30)), strict=True)

    assert said == (True, *[False] * 29)
    assert waits[0] <= 1.0 < waits[6]
    assert max(waits) <= RESTART_MAX_S
    restarts.had_a_good_run()
    wait_s, is_said = restarts.after_death()
    assert (wait_s <= 1.0, is_said) == (True, True)


def test_a_line_is_said_once_until_a_run_is_good() -> None:
    restarts = Restarts(random.Random(0))
    lines = ["busy for=0.1 min", "busy for=1.1 min", "", "denied", "busy for=2.1 min"]

    assert [restarts.is_news(line) for line in lines] == [True, False, False, True, False]
    restarts.had_a_good_run()
    assert restarts.is_news("denied")
    for number in range(3 * SAID_MAX):
        restarts.is_news("x" * number)
    assert restarts.is_news("denied")


@pytest.mark.parametrize(
    ("text", "seconds"), [("off", None), ("1s", 1), ("1.5m", 90), (" 2h ", 7200)]
)
def test_an_interval_is_a_time_or_off(text: str, seconds: float | None) -> None:
    assert parse_every(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "1", "60000", "1 m", "1d", "0s", "0.5s", "-1m", "Off", "1e3s"]
)
def test_another_interval_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(InvalidConfig, match=f"for configuration {EVERY}: (give|must be at least)"):
        BrokerSettings({EVERY: text})
