"""Where the demo keeps what: all below one directory, but for what must survive it."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BUILD = Path("build/demo")
IVY = BUILD / "ivy"
"""Spark's cache of the jars it fetches: kept from run to run, wherever HOME is."""


class BadDirectory(Exception):
    """The text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Places:
    root: Path
    is_kept: bool

    @property
    def log(self) -> Path:
        return self.root / "log"

    @property
    def table(self) -> Path:
        return self.root / "flights-delta"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def broker_lines(self) -> Path:
        return self.root / "broker.log"

    @property
    def spark_lines(self) -> Path:
        return self.root / "spark.log"

    @property
    def picture(self) -> Path:
        return (self.root if self.is_kept else BUILD) / "flights.png"

    @property
    def facts(self) -> Path:
        return self.root / "demo.json"

    def write_flight_count(self, count: int) -> None:
        self.facts.write_text(json.dumps({"flights": count}) + "\n")

    def read_flight_count(self) -> int:
        """Raises `BadDirectory` where no demo ran."""
        try:
            return int(json.loads(self.facts.read_text())["flights"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadDirectory(f"no demo was kept in {self.root}: {error}") from error


@contextmanager
def demo_places(directory: Path | None, *, keep: bool) -> Iterator[Places]:
    """A new place for one run. A temporary one is removed when all went well, or by Ctrl-C."""
    if directory is not None:
        yield _made(directory)
        return
    places = Places(Path(tempfile.mkdtemp(prefix="logstore-demo-")), is_kept=keep)
    try:
        yield places
    except Exception:
        print(f"kept for you to look at: {places.root}")
        raise
    except BaseException:
        shutil.rmtree(places.root, ignore_errors=True)
        raise
    if not keep:
        shutil.rmtree(places.root, ignore_errors=True)


def _made(directory: Path) -> Places:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        is_used = any(directory.iterdir())
    except OSError as error:
        raise BadDirectory(f"cannot use {directory}: {error}") from error
    if is_used:
        raise BadDirectory(f"{directory} is not empty; name a new one, or remove it")
    return Places(directory.absolute(), is_kept=True)
