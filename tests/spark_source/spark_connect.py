"""What Spark Connect's client needs beside PySpark: installed once, outside the checkout and the
environment. The server comes with PySpark."""

import subprocess
import sys
from pathlib import Path

from tests.servers.child import cache_folder, install_once, is_installed

REQUIREMENTS = ("grpcio==1.76.0", "grpcio-status==1.76.0", "googleapis-common-protos==1.72.0")
INSTALL_S = 300.0


def connect_packages() -> Path | None:
    """A folder for the module search path; None where it is not there and cannot be installed."""
    folder = cache_folder("spark-connect-4.2.0")
    if not is_installed(folder):
        try:
            install_once(folder, lambda: _install(folder))
        except (OSError, subprocess.SubprocessError):
            return None
    return folder / "site"


def _install(folder: Path) -> None:
    """By the pip of a virtual environment of its own: ours has none."""
    python = str(folder / "venv" / "bin" / "python")
    for command in (
        [sys.executable, "-m", "venv", str(folder / "venv")],
        [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--target",
            str(folder / "site"),
            *REQUIREMENTS,
        ],
    ):
        subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_S)
