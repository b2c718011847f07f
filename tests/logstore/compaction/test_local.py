"""Tasks in threads of one process: each is answered, several at a time."""

from pathlib import Path

from logstore.compaction.decisions.plan import MoveTask, result_of
from logstore.compaction.local import LocalCarrier
from logstore.compaction.session import RunOptions
from logstore.reading.planning.tasks import SeqRange
from tests.logstore.compaction.world import World


def test_threads_share_the_tasks_of_a_run(world: World) -> None:
    world.create("orders", 2)
    world.fill(60)
    compactor = world.compactor(workers=2)
    try:
        summary = compactor.run(RunOptions(now=True, task_bytes=1_000_000))
    finally:
        compactor.close()

    assert summary.tasks >= 2
    assert summary.errors == []
    assert summary.cpu_s > 0
    world.check()


def test_every_task_is_answered(tmp_path: Path) -> None:
    carrier = LocalCarrier(str(tmp_path), {}, 2)

    results = carrier.carry_out([MoveTask("run", n, {}, ()).text() for n in range(7)])

    assert sorted(result_of(text).number for text in results) == list(range(7))


def test_what_ends_a_task_is_an_answer_too(tmp_path: Path) -> None:
    carrier = LocalCarrier(str(tmp_path / "no log here"), {}, 1)
    (text,) = carrier.carry_out([MoveTask("run", 3, {}, (SeqRange(1, 1, 1, ()),)).text()])

    assert result_of(text).error
    assert result_of(text).error_kind
