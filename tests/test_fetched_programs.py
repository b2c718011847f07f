"""What tests fetch works whatever is installed already; what does not work is fetched again."""

import subprocess
from pathlib import Path

import pytest

from tests.servers.child import install_once, is_installed
from tests.servers.debian_package import (
    starts,
    unpack,
    why_no_packages,  # noqa: F401 - in a condition
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "why_no_packages() is not None", reason="packages of Debian need apt-get and dpkg-deb"
    ),
]

PACKAGE = "hello"
"""Small, and it needs the C library alone."""


def program(folder: Path) -> Path:
    return folder / "usr" / "bin" / PACKAGE


def fetch(folder: Path) -> None:
    def install() -> None:
        unpack(PACKAGE, folder, with_libraries=True)

    install_once(folder, install, lambda: starts(program(folder)))


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("absent")
    fetch(folder)
    return folder


def test_a_package_that_is_absent_is_fetched(fetched: Path) -> None:
    assert is_installed(fetched)
    assert starts(program(fetched))


def test_a_package_that_is_installed_already_is_fetched_too(
    fetched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apt takes it for installed: by another list of what the machine has."""
    shown = subprocess.run(
        ["apt-cache", "show", PACKAGE], check=True, capture_output=True, text=True
    )
    paragraph = shown.stdout.split("\n\n")[0].strip()
    installed = f"{paragraph}\nStatus: install ok installed\n"
    status, config, folder = (tmp_path / name for name in ("status", "apt.conf", "present"))
    status.write_text(Path("/var/lib/dpkg/status").read_text() + "\n" + installed)
    config.write_text(f'Dir::State::status "{status}";\n')
    monkeypatch.setenv("APT_CONFIG", str(config))
    fetch(folder)

    assert starts(program(folder))


@pytest.mark.parametrize("left", ["nothing", "half"])
def test_a_folder_whose_program_does_not_start_is_filled_again(
    fetched: Path, left: str, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    fetch(folder)
    whole = program(folder).read_bytes()
    program(folder).unlink()
    if left == "half":
        program(folder).write_bytes(whole[: len(whole) // 2])
    assert is_installed(folder), "it says so"
    fetch(folder)

    assert starts(program(folder))
