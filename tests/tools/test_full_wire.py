"""Wire code that `tools/full_wire.py` generates is kept for later processes, by its sources."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from logstore.wire.framing.apis import API_VERSIONS_KEY
from tools import full_wire


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(full_wire, "GENERATED", tmp_path)
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    """As another process begins."""
    full_wire._folder.cache_clear()
    full_wire._rest.cache_clear()


def test_a_later_process_generates_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = full_wire._rest(API_VERSIONS_KEY)
    forget()
    monkeypatch.delattr(full_wire, "_generate")

    later = full_wire._rest(API_VERSIONS_KEY)

    assert {name: set(table) for name, table in later.items()} == {
        name: set(table) for name, table in first.items()
    }
    assert [path.name for path in folder.glob("*/*.py")] == ["api_versions.py"]


def test_a_changed_generator_has_a_folder_of_its_own(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = full_wire._folder()
    changed = tmp_path_factory.mktemp("changed")
    (changed / "tools").mkdir()
    (changed / "tools/generate_wire.py").write_text("# another\n")
    monkeypatch.setattr(full_wire, "ROOT", changed)
    forget()

    assert full_wire._folder() != before
