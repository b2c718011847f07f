"""The demo's broker: a child process that is gone when the demo is, whatever happens."""

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.demo.demo_log import DemoLog
from tools.demo.places import Places

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
_LISTENING = re.compile(r"listening on (\S+:\d+)")


class BrokerFailed(Exception):
    """The text says how, and where its log lines are."""


@contextmanager
def running_broker(log: DemoLog, places: Places) -> Iterator[str]:
    """Serves the log; gives the address. Ends it in good order on leaving.

    Raises `BrokerFailed`, also when it did not end well.
    """
    command = [sys.executable, "-m", "broker", *log.arguments, "--listen", "127.0.0.1:0"]
    command += ["--state-dir", str(places.broker_state)]
    log_lines = places.broker_lines
    with log_lines.open("wb") as lines:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=lines
        )
    try:
        yield _address(process, log_lines)
        _stop(process, log_lines)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _address(process: subprocess.Popen[bytes], log_lines: Path) -> str:
    assert process.stdout is not None
    giving_up = threading.Timer(START_TIMEOUT_S, process.kill)
    giving_up.start()
    try:
        line = process.stdout.readline().decode()
    finally:
        giving_up.cancel()
    found = _LISTENING.search(line)
    if found is None:
        raise BrokerFailed(f"the broker did not start: {_last_line(log_lines)}")
    return found[1].rstrip(",")


def _stop(process: subprocess.Popen[bytes], log_lines: Path) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        code = process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise BrokerFailed(f"the broker did not stop in time; see {log_lines}") from None
    if code != 0:
        raise BrokerFailed(f"the broker ended with {code}: {_last_line(log_lines)}")


def _last_line(log_lines: Path) -> str:
    lines = log_lines.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"see {log_lines}"
