"""Other users of the machine read nothing of a log, whatever the umask allows."""

import asyncio
import os
import random
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from logstore.objects.directory import DirectoryStore
from logstore.ports.clock import SystemClock
from logstore.stores.modes import open_to_others
from logstore.wiring.host_lock import HostLock
from logstore.wiring.initialise import InitPorts, initialise
from logstore.wiring.open import open_log


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("no_umask")
def test_files_are_for_the_group_and_the_registry_for_its_user(tmp_path: Path) -> None:
    log = tmp_path / "new" / "log"

    async def serve() -> None:
        opened = await open_log(str(log), clock=SystemClock(), rng=random.Random(1))
        await opened.close()

    asyncio.run(serve())
    for unnamed in (True, False):
        store = DirectoryStore(log, unnamed_files=unnamed)
        store.create(f"chains/{unnamed}/x", [b"x"])
        store.delete(f"chains/{unnamed}/x")
    HostLock(tmp_path / "state" / "lock").release()
    paths = sorted(tmp_path.rglob("*"))
    registry = {path for path in paths if path.name.startswith("registry.db")}
    assert registry
    assert {mode(path) for path in registry} == {0o600}
    assert {mode(path) for path in paths if path.is_dir()} == {0o750}
    others = {path for path in paths if path.is_file()} - registry
    assert not [path for path in others if mode(path) & ~0o640]
    assert not open_to_others(log)


@pytest.mark.usefixtures("no_umask")
def test_init_makes_the_registry_for_its_user_alone(tmp_path: Path) -> None:
    around = InitPorts(SystemClock(), random.Random(1), lambda _: None, "1.2.3")
    initialise(str(tmp_path / "log"), None, {}, around)
    assert mode(tmp_path / "log" / "registry.db") == 0o600
    assert mode(tmp_path / "log") == 0o750


@pytest.mark.usefixtures("no_umask")
def test_a_log_of_an_older_version_is_found_and_not_changed(tmp_path: Path) -> None:
    for name in ("cluster.json", "registry.db"):
        (tmp_path / name).touch(0o644)
    tmp_path.chmod(0o755)
    assert open_to_others(tmp_path) == [tmp_path / "cluster.json", tmp_path / "registry.db"]
    assert mode(tmp_path / "registry.db") == 0o644
    (tmp_path / "cluster.json").chmod(0o440)
    assert open_to_others(tmp_path) == [tmp_path / "registry.db"]
    tmp_path.chmod(0o750)
    assert open_to_others(tmp_path) == []
