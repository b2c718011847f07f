"""A run that dies at any of its steps costs the next run some work, and no reader a record."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from logstore.compaction.session import RunOptions
from tests.logstore.compaction.world import World
from tests.spark_source.log_on_disk import LogOnDisk

STEPS_MAX = 40


class _Killed(BaseException):
    """Ends a run where it stands, and whatever would be done about that."""


class Kill:
    """At step `number`. From then on no step is begun, as in a process that is gone."""

    def __init__(self, number: int) -> None:
        self.steps: list[str] = []
        self._number = number

    def __call__(self, step: str) -> None:
        self.steps.append(step)
        if len(self.steps) > self._number:
            raise _Killed


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory: Path = tmp_path_factory.mktemp("killed") / "log"
    with LogOnDisk(directory) as log:
        yield World(log, directory)


def compact_and_kill(world: World, topics: tuple[str, ...], number: int) -> list[str]:
    """The steps that were begun; the last one was not carried out if there are more of them."""
    kill = Kill(number)
    try:
        world.compact(RunOptions(topics=topics, now=True), watch=kill)
    except _Killed:
        return kill.steps
    return kill.steps


def fill(world: World, topics: tuple[str, ...]) -> None:
    for topic in topics:
        for partition in (0, 1):
            world.write(topic, partition)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_run_killed_at_any_step_is_made_good_by_the_next(shared: World) -> None:
    seen: set[str] = set()
    for number in range(STEPS_MAX):
        earlier = list(shared.topic_ids)  # looked at when it was their turn, and at the end
        topics = (f"one-{number}", f"two-{number}")
        for topic in topics:
            shared.create(topic, 2)
        fill(shared, topics)

        steps = compact_and_kill(shared, topics, number)

        shared.check(is_complete=False, skip=earlier)
        if len(steps) <= number:  # it came to its end
            break
        seen.add(steps[number].replace(f"-{number}", ""))
        fill(shared, topics)
        again = shared.compact(RunOptions(topics=topics, now=True))
        assert again.errors == []
        shared.check(skip=earlier)
        for topic in topics:
            snapshot = shared.snapshot(topic)
            assert snapshot is not None
            assert shared.table_pointers()[shared.topic_ids[topic]].version == snapshot.version
    else:
        raise AssertionError("a run has more steps than were looked at")
    shared.check()
    assert seen >= {
        *("lease", "row of the run", "earlier runs", "tables and log", "table pointers", "cut"),
        *("cut to its row", "plan", "tasks", "task done", "create table: one", "commit: one"),
        *(
            "table pointer: one",
            "create table: two",
            "commit: two",
            "table pointer: two",
            "folders",
        ),
        "end of the run",
    }


@pytest.mark.slow
def test_a_run_killed_again_and_again_moves_on_in_the_end(shared: World) -> None:
    topics = ("patient",)
    others = list(shared.topic_ids)
    shared.create("patient", 2)
    for number in range(4, 16):
        fill(shared, topics)
        compact_and_kill(shared, topics, number)
        shared.check(is_complete=False, skip=others)
    shared.compact(RunOptions(topics=topics, now=True))

    shared.check(skip=others)


def test_the_row_of_a_killed_run_is_closed_by_the_next(shared: World) -> None:
    shared.create("rows", 2)
    fill(shared, ("rows",))
    steps = compact_and_kill(shared, ("rows",), 8)
    assert steps[8] == "tasks"
    killed = shared.run_rows()[-1]

    summary = shared.compact(RunOptions(topics=("rows",), now=True))

    assert killed.status.value == "running"
    assert [(cut.topic_id, len(cut.ranges)) for cut in killed.cut] == [
        (shared.topic_ids["rows"], 2)
    ]
    assert summary.abandoned_runs >= 1
    assert [row.status.value for row in shared.run_rows()[-2:]] == ["abandoned", "done"]
