"""Tasks in worker processes: all are answered, and a worker that dies fails a task, not a run."""

from pathlib import Path

import pytest

from spark_source.compaction.local import LocalCarrier
from spark_source.compaction.plan import MoveTask, result_of
from spark_source.compaction.session import RunOptions
from tests.spark_source.compaction.world import World


def test_workers_share_the_tasks_of_a_run(world: World) -> None:
    world.create("orders", 2)
    world.fill(60)
    compactor = world.compactor(workers=2)
    try:
        summary = compactor.run(RunOptions(now=True, task_bytes=2_000_000))
    finally:
        compactor.close()

    assert summary.tasks == 2
    assert summary.errors == []
    world.check()


def test_one_task_needs_no_worker(tmp_path: Path) -> None:
    carrier = LocalCarrier(str(tmp_path), {}, 2)

    (text,) = carrier.carry_out([MoveTask("run", 7, {}, ()).text()])

    assert result_of(text).number == 7


def test_a_worker_that_dies_fails_its_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_source.compaction.local.MODULE", "spark_source.no_such_module")
    carrier = LocalCarrier(str(tmp_path), {}, 2)

    results = [
        result_of(text)
        for text in carrier.carry_out([MoveTask("run", n, {}, ()).text() for n in range(3)])
    ]

    assert sorted(one.number for one in results) == [0, 1, 2]
    assert all("worker process died" in one.error for one in results)
