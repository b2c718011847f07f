"""Released versions as tests run them: their source from this repository, unpacked once.

A process of a release is `python -m broker` in the folder of its source, by the environment of this
version. It lies outside the checkout, in the user's cache: nothing here looks into it.
"""

import os
import shutil
import subprocess
import tarfile
import tempfile
import tomllib
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests" / "releases.toml"
PROJECT = "pyproject.toml"
FORM = 2
"""Of the folder of a release: one of another form is made again."""
PACKAGES = ("logstore", "broker", "spark_source", "pyspark_logstore")


@dataclass(frozen=True, slots=True)
class Release:
    version: str
    commit: str
    format_level: int

    def why_not(self) -> str | None:
        """Why it cannot run here; None: it can."""
        if shutil.which("git") is None:
            return f"release {self.version} cannot run: there is no git"
        found = _git("cat-file", "-e", f"{self.commit}^{{commit}}")
        if found.returncode:
            return f"release {self.version} cannot run: this checkout lacks commit {self.commit}"
        return None

    def source(self) -> Path:
        """The folder of its packages, with the commands that it brings.

        They go before those of this version, which lie in other modules.
        """
        folder = _cache() / "releases" / f"{self.commit}-{FORM}"
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            archive = _git("archive", self.commit, *PACKAGES, PROJECT)
            archive.check_returncode()
            with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
                whole = Path(temporary) / "source"
                with tarfile.open(fileobj=BytesIO(archive.stdout)) as packed:
                    packed.extractall(whole, filter="data")
                _write_commands(whole)
                _put(whole, folder)
        return folder


@cache
def releases() -> tuple[Release, ...]:
    """The oldest first."""
    listed = tomllib.loads(LIST.read_text("utf-8"))["release"]
    return tuple(Release(**fields) for fields in listed)


def release_before() -> Release:
    """The newest release: this version is made from it, and upgraded from it."""
    return releases()[-1]


def _write_commands(whole: Path) -> None:
    """As an installation does, so that `logstore` finds them in this folder."""
    project = tomllib.loads((whole / PROJECT).read_text("utf-8"))["project"]
    lines = [
        line
        for group, commands in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {place}" for name, place in commands.items()))
    ]
    metadata = whole / f"{project['name'].replace('-', '_')}.egg-info"
    metadata.mkdir()
    (metadata / "PKG-INFO").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\n")
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")


def _put(whole: Path, folder: Path) -> None:
    """Of test processes that unpack it at once one is first; all have equal folders."""
    try:
        whole.rename(folder)
    except OSError:
        if not folder.exists():
            raise


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "logstore-tests"
