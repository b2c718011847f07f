"""Programs that keep their state in compacted topics, killed and started again without it.

Kafka Streams and a reader of `_schemas` (`tests/clients/ChangelogUsers.java`), and a worker of
Kafka Connect with its three topics. Schema Registry itself is on no public Maven repository.
"""

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.clients.java_users import changelog_command, user_command
from tests.servers.child import free_port

READY_S, LOOK_S, REQUEST_S = 400.0, 0.2, 30.0
FILES = "org.apache.kafka.connect.file.FileStream"
LINES = 50
FACTS, SCHEMAS, STORE = "facts", "_schemas", "last-values-last-changelog"
CONNECT_TOPICS = ("connect-configs", "connect-offsets", "connect-status")


class NotRebuilt(AssertionError): ...


class StateReader:
    """One of `ChangelogUsers.java`. `topic`: it holds the last values of this one's keys."""

    def __init__(self, program: str, topic: str, bootstrap: str, folder: Path) -> None:
        self.name = program
        self.topic = topic
        self.restored: list[int] = []
        """Records that each start read to restore its state."""
        self._folder = folder / program
        self._state = self._folder / "state"
        self._folder.mkdir(parents=True)
        properties = self._folder / "properties"
        properties.write_text(
            f"bootstrap.servers={bootstrap}\napplication.id=last-values\nclient.id={program}\n"
            f"state.dir={self._folder / 'stores'}\ncommit.interval.ms=500\n"
            "consumer.session.timeout.ms=6000\nconsumer.group.instance.id=one\n"
        )
        self._command = changelog_command(program, str(properties), str(self._state))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """With nothing on its disk."""
        self._state.unlink(missing_ok=True)
        shutil.rmtree(self._folder / "stores", ignore_errors=True)
        self._process = _started(self._command, self._folder / "log")

    def kill(self) -> None:
        _kill(self._process)

    def require(self, state: str) -> None:
        """It holds `state` (`RebuiltState.sum`) before long; else `NotRebuilt`."""

        def holds() -> bool:
            return self._said()[1] == state

        _require(holds, lambda: f"{self.name} holds {self._said()}, not {state}", self._process)
        self.restored.append(int(self._said()[0]))

    def _said(self) -> tuple[str, str]:
        """Records read, and what they came to."""
        text = self._state.read_text() if self._state.exists() else ""
        first, _, rest = text.partition(" ")
        return first, rest


class ConnectWorker:
    """Copies lines of a file through a topic into another file; what it is to do is in topics."""

    name = "connect"

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._folder = folder / "connect"
        self._folder.mkdir(parents=True)
        self._port = free_port()
        self._source, self._sink = self._folder / "in.txt", self._folder / "out.txt"
        self._lines: list[str] = []
        self._said: dict[str, dict[str, str]] = {}
        """Configs by connector, as they were acknowledged."""
        self._notes = 0
        properties = self._folder / "properties"
        properties.write_text(_worker_properties(bootstrap, self._port))
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        self._command = user_command(main, str(properties))
        self._process: subprocess.Popen[bytes] | None = None
        self._source.touch()

    def start(self) -> None:
        self._process = _started(self._command, self._folder / "log")

    def kill(self) -> None:
        _kill(self._process)

    def work(self) -> None:
        """More lines, and every connector's config says something new."""
        lines = [f"line {len(self._lines) + number}" for number in range(LINES)]
        with self._source.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)
        self._lines += lines
        self._notes += 1
        self._put("source", f"{FILES}SourceConnector", "topic", self._source)
        self._put("sink", f"{FILES}SinkConnector", "topics", self._sink)

    def require(self) -> None:
        """Connectors are as they were said to be, and every line is copied; else `NotRebuilt`.

        Lines may come twice where the worker was killed: Connect promises at least once.
        """

        def holds() -> bool:
            if not all(self._config(name) == said for name, said in self._said.items()):
                return False
            copied = self._sink.read_text().splitlines() if self._sink.exists() else []
            return list(dict.fromkeys(copied)) == self._lines

        def story() -> str:
            shown = {name: self._config(name) for name in self._said}
            return f"connect shows {shown}, not {self._said}, or has not copied all"

        _require(holds, story, self._process)

    def _put(self, name: str, kind: str, topic: str, file: Path) -> None:
        config = {
            "connector.class": kind,
            "file": str(file),
            "tasks.max": "1",
            topic: "connected",
            "note": f"{self._notes}",
        }

        def is_done() -> bool:
            return self._call("PUT", name, config) is not None

        _require(is_done, lambda: f"connect does not take the config of {name}", self._process)
        self._said[name] = {"name": name, **config}

    def _config(self, name: str) -> Any:
        return self._call("GET", name, None)

    def _call(self, method: str, name: str, body: Mapping[str, str] | None) -> Any:
        """None: it has yet to start, or rebalances."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}/connectors/{name}/config",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            error.close()
        except OSError:
            pass
        return None


def _started(command: Sequence[str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("ab") as out:
        return subprocess.Popen(command, stdout=out, stderr=out, cwd=log.parent)


def _kill(process: "subprocess.Popen[bytes] | None") -> None:
    if process is not None:
        process.kill()
        process.wait()


def _require(
    holds: Callable[[], bool],
    story: Callable[[], str],
    process: "subprocess.Popen[bytes] | None",
) -> None:
    until_s = time.monotonic() + READY_S
    while not holds():
        ended = process is None or process.poll() is not None
        if ended or time.monotonic() > until_s:
            raise NotRebuilt(f"{story()}; {'it has ended' if ended else f'{READY_S:.0f} s'}")
        time.sleep(LOOK_S)


def _worker_properties(bootstrap: str, port: int) -> str:
    kinds = ("config", "offset", "status")
    lines = {
        "bootstrap.servers": bootstrap,
        "group.id": "connect",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        **{f"{kind}.storage.topic": name for kind, name in zip(kinds, CONNECT_TOPICS, strict=True)},
        **{f"{kind}.storage.replication.factor": "1" for kind in kinds},
        "offset.flush.interval.ms": "1000",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "2000",
        "consumer.session.timeout.ms": "6000",
        "consumer.heartbeat.interval.ms": "2000",
        "scheduled.rebalance.max.delay.ms": "1000",
        "listeners": f"http://127.0.0.1:{port}",
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())
