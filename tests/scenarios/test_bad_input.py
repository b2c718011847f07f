"""What a broker is given that it must not take: one clear line, an exit code, no data touched.

Every test ends by putting things right and reading back what was there.
"""

import json
import os
import shutil
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.scenarios.harness.brokers import bootstrap_of, refusal, start_broker, stop
from tests.scenarios.harness.data import read, write

pytestmark = pytest.mark.clients

TOPIC = "kept"
VALUES = [f"value {number}" for number in range(50)]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("filled") / "log"
    fill(directory, VALUES)
    return directory


@pytest.fixture
def log(filled: Path, tmp_path: Path) -> Path:
    """A stopped log that holds `VALUES`, a copy: to start a broker takes a second."""
    return Path(shutil.copytree(filled, tmp_path / "log"))


def fill(directory: Path, values: Sequence[str]) -> None:
    with start_broker(str(directory)) as broker:
        write(bootstrap_of(broker), TOPIC, values)
        stop(broker)


def served(directory: Path) -> list[str]:
    """What a broker on the directory serves."""
    with start_broker(str(directory)) as broker:
        values = read(bootstrap_of(broker), TOPIC)
        stop(broker)
    return values


def registry_files(directory: Path) -> Iterator[Path]:
    return directory.glob("registry.db*")


def test_a_busy_port_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with start_broker(str(tmp_path / "log"), port=port) as broker:
            line = refusal(broker)

    assert f"127.0.0.1:{port}" in line
    assert "--listen" in line
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("--listen", "nonsense"), "nonsense"),
        (("--broker", "-1"), "broker is a number from 0 up"),
        (("--set", "no.such.setting=1"), "no.such.setting"),
        (("--set", "logstore.flush.interval.ms=soon"), "soon"),
        (("--config", "/does/not/exist.toml"), "/does/not/exist.toml"),
        (("--url", "gopher://somewhere"), "gopher"),
        (("--url", ""), "URL"),
    ],
)
def test_arguments_that_make_no_sense_end_with_two(
    tmp_path: Path, arguments: tuple[str, ...], reported: str
) -> None:
    with start_broker(str(tmp_path / "log"), more=arguments) as broker:
        assert reported in refusal(broker, code=2)

    assert not (tmp_path / "log").exists()


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("not a directory")

    with start_broker(str(tmp_path / "log")) as broker:
        assert "--url" in refusal(broker)


def test_the_directory_of_another_cluster_is_refused(log: Path, tmp_path: Path) -> None:
    fill(tmp_path / "other", ["other"])
    mine = (log / "cluster.json").read_bytes()
    replace(log / "cluster.json", (tmp_path / "other" / "cluster.json").read_bytes())

    with start_broker(str(log)) as broker:
        assert "another cluster" in refusal(broker)

    replace(log / "cluster.json", mine)
    assert served(log) == VALUES


def test_a_newer_format_is_refused_with_the_advice_to_upgrade(log: Path) -> None:
    mine = (log / "cluster.json").read_bytes()
    newer = {**json.loads(mine), "format": 99}
    replace(log / "cluster.json", json.dumps(newer).encode())

    with start_broker(str(log)) as broker:
        line = refusal(broker)

    assert "format_level=99" in line
    assert "upgrade" in line
    replace(log / "cluster.json", mine)
    assert served(log) == VALUES


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff\x00", b'{"cluster_id": 7}'])
def test_a_cluster_file_that_cannot_be_read_is_refused(log: Path, damage: bytes) -> None:
    mine = (log / "cluster.json").read_bytes()
    replace(log / "cluster.json", damage)

    with start_broker(str(log)) as broker:
        assert "cluster.json" in refusal(broker)

    replace(log / "cluster.json", mine)
    assert served(log) == VALUES


def replace(path: Path, data: bytes) -> None:
    """Objects are read-only and never written again; this is what no operator should do."""
    path.unlink()
    path.write_bytes(data)


@pytest.mark.parametrize("starts", [1, 2])
def test_an_old_copy_of_the_registry_is_refused(log: Path, tmp_path: Path, starts: int) -> None:
    copy, newest = tmp_path / "copy", tmp_path / "newest"
    save_registry(log, copy)
    for number in range(starts):
        fill(log, [f"later {number}"])
    save_registry(log, newest)
    restore_registry(log, copy)

    with start_broker(str(log)) as broker:
        line = refusal(broker)

    assert "older than the log" in line
    assert "logstore restore" in line
    restore_registry(log, newest)
    assert served(log) == [*VALUES, *(f"later {number}" for number in range(starts))]


def test_a_copy_of_the_registry_from_before_the_topic_is_refused(tmp_path: Path) -> None:
    log, copy, newest = tmp_path / "log", tmp_path / "copy", tmp_path / "newest"
    with start_broker(str(log)) as broker:
        bootstrap_of(broker)
        stop(broker)
    save_registry(log, copy)
    fill(log, VALUES)
    save_registry(log, newest)
    restore_registry(log, copy)

    with start_broker(str(log)) as broker:
        assert "logstore restore" in refusal(broker)

    restore_registry(log, newest)
    assert served(log) == VALUES


def test_a_lost_registry_is_refused_and_not_made_again(log: Path, tmp_path: Path) -> None:
    save_registry(log, tmp_path / "copy")
    for path in registry_files(log):
        path.unlink()

    for _ in range(2):  # what the first attempt leaves behind must not let the second in
        with start_broker(str(log)) as broker:
            assert "logstore restore" in refusal(broker)

    restore_registry(log, tmp_path / "copy")
    assert served(log) == VALUES


def test_a_registry_that_is_not_one_is_refused(log: Path, tmp_path: Path) -> None:
    save_registry(log, tmp_path / "copy")
    for path in registry_files(log):
        path.unlink()
    (log / "registry.db").write_bytes(os.urandom(8192))

    with start_broker(str(log)) as broker:
        assert "registry" in refusal(broker)

    restore_registry(log, tmp_path / "copy")
    assert served(log) == VALUES


def save_registry(log: Path, where: Path) -> None:
    where.mkdir()
    for path in registry_files(log):
        shutil.copy(path, where)


def restore_registry(log: Path, where: Path) -> None:
    for path in registry_files(log):
        path.unlink()
    for path in registry_files(where):
        shutil.copy(path, log)
