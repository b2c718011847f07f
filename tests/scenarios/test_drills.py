"""Disaster drills with real processes: whatever happened to the registry, restore loses nothing.

Some of `make drills`, which goes through every moment of every kind of life.
"""

from pathlib import Path

import pytest

from tests.scenarios.harness.drill_life import Life, live
from tests.scenarios.harness.drills import LOST, Drill, Drilled, run
from tests.scenarios.harness.process import Process

pytestmark = [pytest.mark.clients, pytest.mark.slow]

SPARK_S = 500.0


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    """With a table and trimmed chains."""
    return live(tmp_path_factory.mktemp("life"), with_table=True, with_trim=True)


@pytest.mark.parametrize(
    "drill",
    [
        Drill(LOST),
        Drill(LOST, stray=True),
        Drill("moved", half_deleted=True),
        Drill("younger"),
        Drill("second", half=True),
    ],
    ids=lambda drill: drill.name,
)
def test_after_a_restore_every_acknowledged_record_is_read_at_its_offset(
    life: Life, drill: Drill, tmp_path: Path
) -> None:
    assert life.deleted, "nothing was trimmed: the drill proves nothing"
    found = Drilled()
    run(life, drill, tmp_path / "log", found, {})
    assert not found.faults, "\n".join(found.report())


def test_what_was_trimmed_without_a_table_is_no_loss_after_a_restore(tmp_path: Path) -> None:
    """An older registry does not know of the log start that allowed it."""
    life = live(tmp_path / "life", with_table=False, with_trim=True)
    assert life.deleted, "nothing was trimmed: the drill proves nothing"
    found = Drilled()
    for drill in (Drill("alone"), Drill(LOST, stray=True)):
        run(life, drill, tmp_path / drill.name, found, {})
    assert not found.faults, "\n".join(found.report())


@pytest.mark.spark
@pytest.mark.usefixtures("alone_with_ivy")
def test_spark_reads_the_same_as_a_consumer_after_a_restore() -> None:
    only = ("--kind", "table and trimming", "--only", "registry=moved half_deleted")
    with Process(("tests.scenarios.harness.drills", "--spark", *only)) as drills:
        code = drills.wait(deadline_s=SPARK_S)
    assert code == 0, drills.lines
