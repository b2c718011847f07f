"""Starts real brokers for scenarios, and asks them for the simplest things."""

import re
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.scenarios.harness.process import ROOT, Process

LISTENING = r" listening on (127\.0\.0\.1:\d+)"
START_S = 60.0
LINES_SHOWN, THREAD_LINES_SHOWN, CHARS_SHOWN = 8, 30, 300
_NOISE = r"Extension modules|/threading\.py|/concurrent/futures/thread\.py|^$"


def start_broker(
    url: str,
    *,
    port: int = 0,
    launch: Sequence[str] = (),
    more: Sequence[str] = (),
    before: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    source: Path = ROOT,
) -> Process:
    """A broker on `url`, of the version in `source`.

    With `launch`, one that may die at a named step (`launch`).
    """
    module = ["tests.scenarios.harness.launch", *launch] if launch else ["broker"]
    arguments = [*module, "--url", url, "--listen", f"127.0.0.1:{port}", *more]
    environment = {"PYTHONFAULTHANDLER": "1", **(environment or {})}
    return Process(arguments, environment=environment, before=before, source=source)


def last_words(broker: Process) -> str:
    """Its last lines and where its threads are, for the report of a test that failed; it dies."""
    lines, state = broker.lines, "has ended"
    if broker.is_alive:
        state = "runs"
        broker.send(signal.SIGCONT)
        broker.send(signal.SIGABRT)
        broker.wait(deadline_s=START_S)
    threads = [line for line in broker.lines[len(lines) :] if not re.search(_NOISE, line)]
    said = lines[-LINES_SHOWN:] + threads[-THREAD_LINES_SHOWN:]
    return "\n  ".join([f"{state}; its last lines:", *(line[:CHARS_SHOWN] for line in said)])


def bootstrap_of(broker: Process) -> str:
    """The address it listens on, once it says so."""
    return broker.wait_for(LISTENING, deadline_s=START_S)[1]


def create_topic(
    bootstrap: str,
    name: str,
    partitions: int,
    configs: Mapping[str, str] | None = None,
    *,
    replicas: int = 1,
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    new = NewTopic(name, partitions, replicas, config=dict(configs or {}))
    answers = admin.create_topics([new], request_timeout=START_S)
    answers[name].result(START_S)


def refusal(broker: Process, *, code: int = 1) -> str:
    """The one line with which a broker ended; that there is no other, and the exit code."""
    ended = broker.wait(deadline_s=START_S)
    assert ended == code, f"code={ended} {broker.lines}"
    assert len(broker.lines) == 1, broker.lines
    assert broker.lines[0].startswith("logstore: "), broker.lines
    return broker.lines[0]


def stop(broker: Process) -> None:
    """End it in good order."""
    broker.send(signal.SIGTERM)
    assert broker.wait(deadline_s=START_S) == 0, broker.lines
    assert broker.said[-1].endswith(" stopped"), broker.lines
    assert not any("Traceback" in line for line in broker.lines), broker.lines
