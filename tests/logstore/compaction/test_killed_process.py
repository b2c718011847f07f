"""Real processes killed with SIGKILL, each some steps later; then a run that makes it good.

Each waits for the lease of the one before. `test_kill_points` ends a run at every step, in one
process.
"""

import subprocess
import sys

import pytest

from tests.logstore.compaction.world import World

pytestmark = pytest.mark.slow

PROGRAM = "tests.logstore.compaction.killed_run"


@pytest.mark.timeout(600)
def test_killed_processes_lose_and_double_nothing(world: World) -> None:
    world.create("orders", 3)
    world.create("clicks", 2)
    killed_at: list[str] = []
    for number in range(1, 60, 3):
        world.fill(10)
        done = subprocess.run(
            [sys.executable, "-m", PROGRAM, str(world.directory), str(number)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        world.check(is_complete=False)
        if done.returncode == 0:
            break
        assert done.returncode == -9, done.stderr
        killed_at += done.stdout.split("\n")[:1]

    assert len(set(killed_at)) >= 6
    summary = world.compact(wait_s=30)
    assert summary.errors == []
    world.check()
