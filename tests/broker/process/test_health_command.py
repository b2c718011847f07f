"""`logstore health`: exit code and line, against a real HTTP port and other listeners."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from logstore.cli.main import main
from tests.broker.http.pages import Pages, pages_of
from tests.broker.running import Running
from tests.servers.child import free_port

ROOT = Path(__file__).parents[3]


@pytest.fixture
def pages(running: Running) -> Iterator[Pages]:
    with pages_of(running) as pages:
        yield pages


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """The port of a server that gives one client `answer`, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        thread.join()


def test_a_healthy_broker_is_one_line_and_0(
    pages: Pages, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["health", "--http", f"127.0.0.1:{pages.port}"]) == 0
    assert capsys.readouterr() == ("logstore: healthy\n", "")


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "", "localhost"])
def test_the_address_is_what_the_broker_was_given(
    pages: Pages, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGSTORE_HTTP", f"{host}:{pages.port}")

    assert main(["health"]) == 0


def test_settings_prevail_as_in_serve(
    pages: Pages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "broker.toml"
    config.write_text('http = "127.0.0.1:9"\n')
    monkeypatch.setenv("LOGSTORE_CONFIG", str(config))
    assert main(["health"]) == 1
    assert main(["health", "--set", f"http=127.0.0.1:{pages.port}"]) == 0


def test_a_broker_that_is_not_ready_is_1_with_its_reasons(
    running: Running, pages: Pages, capsys: pytest.CaptureFixture[str]
) -> None:
    running.do(pages.stop.set)

    assert main(["health", "--http", f"127.0.0.1:{pages.port}"]) == 0
    assert main(["health", "--ready", "--http", f"127.0.0.1:{pages.port}"]) == 1
    assert capsys.readouterr().err == "logstore: not ready: not accepting: stopping\n"


def test_a_port_that_nothing_listens_on_is_1(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()

    assert main(["health", "--http", f"127.0.0.1:{port}"]) == 1
    assert f"no answer from 127.0.0.1:{port}: Connection refused" in capsys.readouterr().err


def test_a_broker_that_is_stopped_is_1_after_the_timeout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:  # the kernel accepts, and no more
        port = listening.getsockname()[1]
        assert main(["health", "--http", f"127.0.0.1:{port}", "--timeout", "0.1"]) == 1
    assert capsys.readouterr().err == f"logstore: no answer from 127.0.0.1:{port} in 0.1 s\n"


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-x\r\n", b"HTTP/1.1\r\n\r\n", b"\xff" * 70_000])
def test_another_server_is_not_taken_for_a_broker(
    answer: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(answer) as port:
        assert main(["health", "--http", f"127.0.0.1:{port}"]) == 1
    error = capsys.readouterr().err
    assert (
        error.startswith(f"logstore: 127.0.0.1:{port} does not answer") and error.count("\n") == 1
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "no HTTP port is named: give broker and health check the same --http, LOGSTORE_HTTP"),
        (["--http", "0.0.0.0:0"], "http=0.0.0.0:0 takes any free port, which only the broker"),
        (["--http", "9644x"], "not an address of the form [NAME://]HOST:PORT: '9644x'"),
        (["--set", "htp=1"], "unknown configuration name: htp; did you mean http?"),
    ],
)
def test_an_address_that_cannot_be_is_one_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["health", *arguments]) == 1
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_it_imports_nothing_heavy() -> None:
    program = (
        "import sys; from logstore.cli.main import main; "
        "main(['health', '--http', '127.0.0.1:9', '--timeout', '1']); "
        "print(*sys.modules)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    imported = set(answer.stdout.split())

    assert "broker.process.health_command" in imported
    assert not imported & {"asyncio", "ssl", "http.client", "pyarrow", "broker.process.serve"}
