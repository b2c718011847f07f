"""Tools in Python that this project does not depend on: each pinned by a lock file, installed by uv
into a virtual environment of its own, outside the checkout."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.servers.child import cache_folder, install_once, is_installed

ROOT = Path(__file__).parents[2]
INSTALL_S = 900.0
TOOL_S = 600.0


class PinnedTool:
    """`name`: its command, and what its environment is called; `lock` has the pins."""

    def __init__(self, name: str, lock: Path) -> None:
        self.name = name
        self._lock = ROOT / lock

    def why_not(self) -> str | None:
        """None if it can be run here, else what is missing, in one line."""
        if is_installed(self._folder):
            return None
        try:
            install_once(self._folder, self._install)
        except (OSError, subprocess.SubprocessError) as error:
            return f"{self.name} could not be installed: {error}"
        return None

    def run(
        self, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Its command, whatever its code."""
        return subprocess.run(
            [str(self._venv / "bin" / self.name), *arguments],
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=TOOL_S,
            check=False,
        )

    @property
    def _folder(self) -> Path:
        digest = hashlib.sha256(self._lock.read_bytes()).hexdigest()[:12]
        return cache_folder(f"{self.name}-{digest}")

    @property
    def _venv(self) -> Path:
        """Below the folder: uv locks an environment by a file of the name that ours has."""
        return self._folder / "venv"

    def _install(self) -> None:
        uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
        folder = self._venv
        python = str(folder / "bin" / "python")
        install = [uv, "pip", "install", "--quiet", "--no-deps", "--python", python]
        for command in (
            [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)],
            [*install, "--requirement", str(self._lock)],
        ):
            subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_S)


checkov = PinnedTool("checkov", Path("tests/infra/checkov.lock"))
kubernetes_validate = PinnedTool(
    "kubernetes-validate", Path("tests/infra/kubernetes-validate.lock")
)
cyclonedx_py = PinnedTool("cyclonedx-py", Path("requirements-sbom.lock"))
