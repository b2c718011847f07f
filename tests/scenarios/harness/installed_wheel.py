"""The wheel of this tree in an environment of its own: what users get.

Nothing of the checkout is on a path of what runs there, and the environment is not activated.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.children import child_of
from tools.tree import tree_files

ROOT = Path(__file__).parents[3]
LIMIT_S = 540
LISTENING = re.compile(r"listening on (127\.0\.0\.1:\d+)")


def uv() -> str:
    """The one that set-up used."""
    places = [shutil.which("uv"), str(ROOT / ".uv/bin/uv"), str(ROOT / ".uv/lib/bin/uv")]
    return next(place for place in places if place and Path(place).exists())


def call(*command: str, where: Path, given: str = "", **variables: str) -> str:
    """What a command prints; it must end with 0. Nothing of the checkout is on its path."""
    done = subprocess.run(
        command,
        cwd=where,
        env=environment(variables),
        input=given,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    strange = ("PYTHON", "PYSPARK_", "SPARK_", "VIRTUAL_ENV")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(strange)}
    if "PIP_INDEX_URL" in kept:
        kept.setdefault("UV_DEFAULT_INDEX", kept["PIP_INDEX_URL"])
    return {**kept, **variables}


def built_wheel(folder: Path) -> Path:
    """Built from a copy: what earlier builds left in the checkout would be in it too."""
    for path in tree_files(ROOT):
        to = folder / "source" / path
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, to)
    build = ["build", "--quiet", "--wheel", "--build-constraints", "requirements-build.lock"]
    out = ["--python", sys.executable, "--out-dir", str(folder)]
    call(uv(), *build, *out, where=folder / "source")
    (built,) = folder.glob("*.whl")
    return built


@dataclass(frozen=True)
class Installed:
    """A virtual environment that has the wheel and what it asks for."""

    folder: Path

    @classmethod
    def of(cls, wheel: Path, folder: Path, extras: str = "", *more: str) -> "Installed":
        call(uv(), "venv", "--quiet", "--python", sys.executable, str(folder), where=folder.parent)
        python = ["--python", str(folder / "bin/python")]
        pins = ["--constraint", str(ROOT / "requirements.lock")]
        wanted = f"pyspark-logstore{extras} @ {wheel.as_uri()}"
        call(uv(), "pip", "install", "--quiet", *python, *pins, wanted, *more, where=folder.parent)
        return cls(folder)

    def python(self, program: str, *arguments: str, **variables: str) -> str:
        python = str(self.folder / "bin/python")
        return call(python, "-c", program, *arguments, where=self.folder, **variables)

    def logstore(self, *arguments: str, given: str = "") -> str:
        return call(str(self.folder / "bin/logstore"), *arguments, where=self.folder, given=given)

    @contextmanager
    def broker(self, log: Path, *more: str) -> Iterator[str]:
        """Where it listens."""
        serve = ["serve", "--url", str(log), "--listen", "127.0.0.1:0", *more]
        with child_of(
            [str(self.folder / "bin/logstore"), *serve],
            cwd=self.folder,
            env=environment({}),
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            found = LISTENING.search(process.stdout.readline())
            assert found is not None
            yield found[1]
            process.terminate()
            assert process.wait(LIMIT_S) == 0
