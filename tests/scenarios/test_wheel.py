"""The wheel in a clean environment, with and without extras: what users get."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.children import child_of
from tests.servers.child import free_port
from tests.servers.short_java import JAVA_OPTIONS
from tools.tree import tree_files

ROOT = Path(__file__).parent.parent.parent
LIMIT_S = 540
LISTENING = re.compile(r"listening on (127\.0\.0\.1:\d+)")

READ = """
import logstore, sys
with logstore.open(sys.argv[1]) as log:
    rows = log.read("orders", columns=["offset", "key", "value"]).read_all().to_pylist()
print(sorted((row["offset"], row["key"].decode(), row["value"].decode()) for row in rows))
"""
SPARK = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
orders = spark.read.format("logstore").option("path", sys.argv[1]).option("subscribe", "orders")
rows = orders.load().selectExpr("offset", "string(key) k", "string(value) v").collect()
print(sorted((row.offset, row.k, row.v) for row in rows))
spark.stop()
"""
ROWS = "[(0, 'a', '1'), (1, 'b', '2'), (2, 'a', '3')]"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(LIMIT_S + 60)]


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
    strange = ("PYTHON", "SPARK_")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(strange)}
    if "PIP_INDEX_URL" in kept:
        kept.setdefault("UV_DEFAULT_INDEX", kept["PIP_INDEX_URL"])
    return {**kept, **variables}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: what earlier builds left in the checkout would be in it too."""
    folder = tmp_path_factory.mktemp("wheel")
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
    def of(cls, wheel: Path, folder: Path, extras: str = "") -> "Installed":
        call(uv(), "venv", "--quiet", "--python", sys.executable, str(folder), where=folder.parent)
        python = ["--python", str(folder / "bin/python")]
        pins = ["--constraint", str(ROOT / "requirements.lock")]
        wanted = f"pyspark-logstore{extras} @ {wheel.as_uri()}"
        call(uv(), "pip", "install", "--quiet", *python, *pins, wanted, where=folder.parent)
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

    def write(self, log: Path) -> None:
        """Three records, two of them moved to the table."""
        with self.broker(log) as address:
            where = ["--bootstrap", address]
            self.logstore("topics", "create", "orders", *where)
            keys = ["--key-separator", ":", *where]
            self.logstore("produce", "orders", *keys, given="a:1\nb:2\n")
            assert self.logstore("consume", "orders", *keys) == "a:1\nb:2\n"
            assert "2 records of 1 topic" in self.logstore("compact", "--url", str(log), "--now")
            self.logstore("produce", "orders", *keys, given="a:3\n")
            assert self.logstore("consume", "orders", *keys) == "a:1\nb:2\na:3\n"


def test_the_wheel_holds_the_product_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        (metadata,) = (packed.read(name) for name in names if name.endswith("/METADATA"))
    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"logstore", "broker", "spark_source", "pyspark_logstore"}
    sources = {
        str(path) for path in tree_files(ROOT) if path.suffix == ".py" and path.parts[0] in tops
    }
    assert {name for name in names if name.endswith(".py")} == sources
    assert {f"{top}/py.typed" for top in tops} <= names
    assert any(name.startswith("logstore/records/native/_codec.") for name in names)
    links = re.findall(r"\]\(([^)\s]+)", metadata.decode())
    assert links
    assert all(re.match(r"https?:", link) for link in links)


def test_extras_and_what_every_user_needs_are_ranges() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert set(extras) == {"broker", "s3", "spark", "delta"}
    for wanted in [*project["dependencies"], *(one for extra in extras.values() for one in extra)]:
        assert "==" not in wanted
        assert ">=" in wanted


def test_without_extras_a_log_is_served_written_compacted_and_read(
    wheel: Path, tmp_path: Path
) -> None:
    installed = Installed.of(wheel, tmp_path / "venv")
    listed = ["pip", "list", "--format=freeze", "--python", str(installed.folder / "bin/python")]
    found = {line.partition("==")[0] for line in call(uv(), *listed, where=tmp_path).split()}
    assert found >= {"fastcrc", "pyarrow"}
    assert not found & {"pyspark", "boto3", "obstore", "rich", "deltalake", "pytest"}

    installed.write(tmp_path / "log")
    assert installed.python(READ, str(tmp_path / "log")).strip() == ROWS
    assert "broken" not in installed.logstore("fsck", "--url", str(tmp_path / "log"))


def test_with_extras_a_broker_shows_metrics_and_buckets_are_known(
    wheel: Path, tmp_path: Path
) -> None:
    installed = Installed.of(wheel, tmp_path / "venv", "[broker,s3]")
    installed.python("import logstore.objects.s3, logstore.registry.dynamodb.client")
    door = f"127.0.0.1:{free_port()}"
    with installed.broker(tmp_path / "log", "--http", door):
        for page in ("metrics", "console", "console.js"):
            with urllib.request.urlopen(f"http://{door}/{page}", timeout=LIMIT_S) as answer:
                assert b"logstore" in answer.read()
    installed.write(tmp_path / "log")
    assert installed.python(READ, str(tmp_path / "log")).strip() == ROWS


@pytest.mark.spark
def test_with_the_extra_of_spark_a_batch_is_read(wheel: Path, tmp_path: Path) -> None:
    installed = Installed.of(wheel, tmp_path / "venv", "[spark]")
    installed.write(tmp_path / "log")
    java = " ".join(JAVA_OPTIONS)
    own = {
        "PYSPARK_PYTHON": str(installed.folder / "bin/python"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": java,
        "SPARK_LAUNCHER_OPTS": java,
    }
    assert installed.python(SPARK, str(tmp_path / "log"), **own).strip() == ROWS
