"""Debian's packages, unpacked outside the checkout: nothing is installed."""

import os
import shutil
import subprocess
from pathlib import Path

INSTALL_S = 300.0
START_S = 60.0


def why_no_packages() -> str | None:
    missing = [tool for tool in ("apt-get", "dpkg-deb") if shutil.which(tool) is None]
    return f"no {missing[0]} here" if missing else None


def unpack(package: str, folder: Path, *, with_libraries: bool) -> None:
    """Raises `OSError`, `subprocess.SubprocessError`. A new machine has no lists of packages yet.

    `with_libraries`: what it needs and this machine does not have, too. The package itself is
    fetched also where it is installed: its program is looked for in `folder` alone.
    """
    download = ["apt-get", "download", package]
    if with_libraries:
        download = ["apt-get", "install", "--yes", "--no-install-recommends", "--download-only"]
        download += ["--reinstall", "-o", f"Dir::Cache::archives={folder}", package]
    (folder / "partial").mkdir(exist_ok=True)
    try:
        _run(download, folder)
    except subprocess.CalledProcessError:
        _run(["apt-get", "update"], folder)
        _run(download, folder)
    for archive in folder.glob("*.deb"):
        _run(["dpkg-deb", "-x", str(archive), str(folder)], folder)
        archive.unlink()


def starts(program: Path | str, *, libraries: str = "") -> bool:
    """Whether a program that was unpacked says its version."""
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries} if libraries else None
    try:
        subprocess.run(
            [program, "--version"],
            check=True,
            capture_output=True,
            timeout=START_S,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=INSTALL_S)
