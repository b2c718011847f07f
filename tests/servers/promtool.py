"""Prometheus and promtool, its checker of rules: Debian's, unpacked outside the checkout."""

import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.servers.child import cache_folder, install_once, is_installed
from tests.servers.debian_package import INSTALL_S, starts, unpack, why_no_packages

PACKAGE = "prometheus"


@cache
def why_no_promtool() -> str | None:
    """None if it can be run here, else what is missing, in one line."""
    if shutil.which("promtool") is not None or (is_installed(_folder()) and _works()):
        return None
    if why_no_packages():
        return "promtool comes with Prometheus: install that (Debian: apt-get install prometheus)"
    try:
        install_once(_folder(), _install, _works)
    except (OSError, subprocess.SubprocessError) as error:
        return f"apt-get could not fetch {PACKAGE}: {error}"
    return None


def promtool(*arguments: object, within: Path) -> str:
    """Its output in the folder `within`. Raises `AssertionError` with it where it fails."""
    command = [program("promtool"), *map(str, arguments)]
    done = subprocess.run(
        command, cwd=within, check=False, capture_output=True, text=True, timeout=INSTALL_S
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def program(name: str) -> str:
    """The path of one of the package's programs."""
    return shutil.which(name) or str(_folder() / "usr" / "bin" / name)


def _folder() -> Path:
    return cache_folder("promtool")


def _works() -> bool:
    return starts(program("promtool"))


def _install() -> None:
    unpack(PACKAGE, _folder(), with_libraries=False)
