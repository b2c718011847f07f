"""The demo's files: all below one directory, but for those that must survive it."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.demo.demo_log import DemoLog

BUILD = Path("build/demo")
IVY = BUILD / "ivy"
"""Spark's cache of the jars it fetches: kept from run to run, wherever HOME is."""


class BadDirectory(Exception):
    """The text names the fault."""


@dataclass(frozen=True, slots=True)
class Places:
    root: Path
    is_kept: bool

    @property
    def log(self) -> Path:
        """Unless a URL says otherwise."""
        return self.root / "log"

    @property
    def broker_state(self) -> Path:
        return self.root / "state"

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

    def write_facts(self, count: int, log: DemoLog) -> None:
        facts: dict[str, Any] = {"flights": count}
        if log.url != str(self.log):  # a log inside the directory may be moved with it
            facts["log"] = log.to_json()
        self.facts.write_text(json.dumps(facts) + "\n")

    def read_facts(self) -> tuple[int, DemoLog]:
        """How many flights, and their log. Raises `BadDirectory` where there is none to look at."""
        try:
            facts = json.loads(self.facts.read_text())
            count = int(facts["flights"])
            elsewhere = facts.get("log")
            log = DemoLog.of_json(elsewhere) if elsewhere else DemoLog.in_directory(self.log)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadDirectory(f"no demo was kept in {self.root}: {error}") from error
        if log.ends_with_demo:
            raise BadDirectory(f"the log of {self.root} ended with the servers that it was on")
        return count, log


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
