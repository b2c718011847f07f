"""ministack 1.5.33, an emulator of AWS that needs no build: a second opinion on S3.

In a virtual environment of its own, kept outside the checkout, because it pins botocore.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.child import cache_folder, free_port, install_once, is_installed, running_child

VERSION = "1.5.33"
INSTALL_S = 600.0


def why_no_ministack() -> str | None:
    """None if it can be run here, else what is missing, in one line."""
    folder = _folder()
    if is_installed(folder):
        return None
    try:
        install_once(folder, lambda: _install(folder))
    except (OSError, subprocess.SubprocessError) as error:
        return f"ministack {VERSION} could not be installed: {error}"
    return None


@contextmanager
def ministack(directory: Path) -> Iterator[str]:
    """Its endpoint, once it answers; everything is in its memory."""
    port = free_port()
    command = [str(_folder() / "bin" / "hypercorn"), "ministack.app:app"]
    log = directory / "ministack.log"
    with running_child([*command, "-b", f"127.0.0.1:{port}"], port, log):
        yield f"http://127.0.0.1:{port}"


def _folder() -> Path:
    return cache_folder(f"ministack-{VERSION}")


def _install(folder: Path) -> None:
    python = str(folder / "bin" / "python")
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [python, "-m", "pip", "install", "--quiet", f"ministack=={VERSION}"],
    ):
        subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_S)
