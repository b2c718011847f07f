"""The wheel in a clean environment, with and without extras: what users get."""

import re
import tomllib
import urllib.request
import zipfile
from pathlib import Path

import pytest

from tests.scenarios.harness.installed_wheel import (
    LIMIT_S,
    ROOT,
    Installed,
    built_wheel,
    call,
    uv,
)
from tests.servers.child import free_port
from tools.tree import tree_files

READ = """
import logstore, sys
with logstore.open(sys.argv[1]) as log:
    rows = log.read("orders", columns=["offset", "key", "value"]).read_all().to_pylist()
print(sorted((row["offset"], row["key"].decode(), row["value"].decode()) for row in rows))
"""
ROWS = "[(0, 'a', '1'), (1, 'b', '2'), (2, 'a', '3')]"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(LIMIT_S + 60)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("wheel"))


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
    assert set(extras) == {"broker", "s3", "spark", "delta", "security"}
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

    write(installed, tmp_path / "log")
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
    write(installed, tmp_path / "log")
    assert installed.python(READ, str(tmp_path / "log")).strip() == ROWS


def write(installed: Installed, log: Path) -> None:
    """Three records, two of them moved to the table."""
    with installed.broker(log) as address:
        where = ["--bootstrap", address]
        installed.logstore("topics", "create", "orders", *where)
        keys = ["--key-separator", ":", *where]
        installed.logstore("produce", "orders", *keys, given="a:1\nb:2\n")
        assert installed.logstore("consume", "orders", *keys) == "a:1\nb:2\n"
        assert "2 records of 1 topic" in installed.logstore("compact", "--url", str(log), "--now")
        installed.logstore("produce", "orders", *keys, given="a:3\n")
        assert installed.logstore("consume", "orders", *keys) == "a:1\nb:2\na:3\n"
