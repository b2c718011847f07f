"""Jars by Maven, kept outside the checkout: whatever a pom names, fetched once."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.servers.child import cache_folder, install_once, is_installed


@dataclass(frozen=True, slots=True)
class MavenJars:
    """`name` with its version is that of the folder they are kept in."""

    name: str
    version: str
    pom: Path
    install_s: float = 300.0

    @property
    def folder(self) -> Path:
        return cache_folder(f"{self.name}-{self.version}")

    def why_not(self) -> str | None:
        """None if they are there, fetched now if need be, else what is missing, in one line."""
        if is_installed(self.folder):
            return None
        if shutil.which("mvn") is None:
            return f"{self.name} comes by Maven: install that (Debian: apt-get install maven)"
        try:
            install_once(self.folder, self._install)
        except (OSError, subprocess.SubprocessError) as error:
            return f"Maven could not fetch {self.name} {self.version}: {error}"
        return None

    def paths(self) -> Sequence[Path]:
        """None where they are not there and cannot be fetched."""
        return () if self.why_not() else sorted(self.folder.glob("*.jar"))

    def _install(self) -> None:
        command = ["mvn", "-B", "-q", "-f", str(self.pom), "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={self.folder}"]
        subprocess.run(command, check=True, capture_output=True, timeout=self.install_s)
