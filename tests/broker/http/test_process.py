"""A broker process with `--http`: its pages from start to end, its log lines, its secrets."""

import asyncio
import json
import random
import signal
from pathlib import Path

import pytest

from logstore.formats.broker_row import BROKER, BrokerStatus
from logstore.ports.clock import SystemClock
from logstore.ports.registry import RowExists
from logstore.wiring.open import open_log
from tests.broker.http.pages import ask, scrape
from tests.scenarios.harness.process import Process

pytestmark = pytest.mark.slow

CANARY = "canary-51c0"
SERVED = r'"metrics and health are served: address=127\.0\.0\.1:(\d+)"'


def serve(log: Path, *more: str) -> Process:
    secrets = {"AWS_SECRET_ACCESS_KEY": CANARY, "AWS_SESSION_TOKEN": CANARY}
    words = ("broker", "--url", str(log), "--listen", "127.0.0.1:0", "--log-format", "json", *more)
    return Process(words, environment=secrets)


def test_pages_and_log_lines_tell_how_it_is_and_no_secret(tmp_path: Path) -> None:
    settings = ("--set", f"storage.profile={CANARY}")
    with serve(tmp_path / "log", "--http", "127.0.0.1:0", *settings) as broker:
        port = int(broker.wait_for(SERVED)[1])
        broker.wait_for("listening on")
        found = scrape(port)
        assert found.value("logstore_broker_state", state="serving") == 1
        assert found.value("logstore_store_requests_total", kind="create") > 0
        assert found.value("process_resident_memory_bytes") > 0
        assert ask(port, "/readyz").status == 200
        pages = [str(ask(port, path)) for path in ("/metrics", "/healthz", "/readyz", "/x")]
        broker.send(signal.SIGTERM)

        assert broker.wait() == 0
        assert CANARY not in "".join(pages + broker.lines)
        lines = [json.loads(line) for line in broker.lines if line.startswith("{")]
        assert {"address": f"127.0.0.1:{port}"} in [line.get("facts") for line in lines]


def test_a_port_that_is_taken_is_refused_with_what_to_change(tmp_path: Path) -> None:
    with serve(tmp_path / "one", "--http", "127.0.0.1:0") as first:
        port = first.wait_for(SERVED)[1]
        with serve(tmp_path / "two", "--http", f"127.0.0.1:{port}") as second:
            assert second.wait() == 1
            assert "choose another --http" in second.lines[-1]


def test_pages_outlive_an_epoch_that_was_fenced(tmp_path: Path) -> None:
    async def fence() -> None:
        opened = await open_log(str(tmp_path / "log"), clock=SystemClock(), rng=random.Random(1))
        fenced = {"status": BrokerStatus.FENCED.value}
        await opened.runner.registry.update_if(BROKER, "1", fenced, RowExists())
        await opened.close()

    with serve(tmp_path / "log", "--http", "127.0.0.1:0") as broker:
        port = int(broker.wait_for(SERVED)[1])
        broker.wait_for("epoch 1 listening on")
        asyncio.run(fence())
        broker.wait_for("epoch 2 listening on")

        assert scrape(port).value("logstore_broker_epoch") == 2
        assert ask(port, "/healthz").status == 200
