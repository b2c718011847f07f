"""The services of compose.yaml as processes of this machine, by their own commands and variables.

Part of `make image`, not of `make test`: it starts four servers and a dozen processes.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.images.compose import BROKERS, read_services
from tests.images.dockerfile import environment_of
from tests.scenarios.harness.process import ROOT, Process
from tests.servers.child import free_port, running_child
from tests.servers.dynamodb_local import JARS, MAIN, why_no_dynamodb_local
from tests.servers.short_java import JAVA_OPTIONS
from tests.servers.versitygw import binary, why_no_versitygw

PATIENCE_S = 300.0


class Machine:
    """The services on this machine: host names and folders of containers become local ones."""

    def __init__(self, services: Mapping[str, Any], folder: Path) -> None:
        self.services = services
        self.folder = folder
        self.s3_port, self.dynamodb_port = free_port(), free_port()
        self.outside = {name: free_port() for name in BROKERS}
        self._inside = {name: free_port() for name in BROKERS}
        for path in ("data", "rows"):
            (folder / path).mkdir()

    def local(self, service: str, text: str) -> str:
        """`text` of a service as it is here."""
        inside, outside = self._inside.get(service, 0), self.outside.get(service, 0)
        for pattern, new in (
            (r"s3:7070|(?<=^):7070$", f"127.0.0.1:{self.s3_port}"),
            (r"dynamodb:8000", f"127.0.0.1:{self.dynamodb_port}"),
            (r"^8000$", str(self.dynamodb_port)),
            (r"^/data$", str(self.folder / "data")),
            (r"^/rows$", str(self.folder / "rows")),
            (r"^/state$", str(self.folder / f"{service}-state")),
            (r"(?:0\.0\.0\.0|broker-\d):9092", f"127.0.0.1:{inside}"),
            (r"(?:0\.0\.0\.0|localhost):[123]9092", f"127.0.0.1:{outside}"),
            (r"^0\.0\.0\.0:9644$", "127.0.0.1:0"),
        ):
            text = re.sub(pattern, new, text)
        return text

    def command(self, service: str) -> list[str]:
        return [self.local(service, word) for word in self.services[service]["command"]]

    def environment(self, service: str) -> dict[str, str]:
        """Of the image, then of the service; `python` and `logstore` are those of these tests."""
        image = environment_of("broker") if service in BROKERS else {}
        given = {**image, **self.services[service].get("environment", {})}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {
            **{name: self.local(service, str(text)) for name, text in given.items()},
            "PATH": path,
        }

    @contextmanager
    def servers(self) -> Iterator[None]:
        java, jar, *options = self.command("dynamodb")
        assert (java, jar) == ("-jar", "DynamoDBLocal.jar")
        jars = ["-Xmx256m", *JAVA_OPTIONS, f"-Djava.library.path={JARS.folder}"]
        dynamodb = ["java", *jars, "-cp", f"{JARS.folder}/*", MAIN, *options]
        s3 = [str(binary()), *self.command("s3")]
        with (
            running_child(s3, self.s3_port, self.folder / "s3.log", self.environment("s3")),
            running_child(dynamodb, self.dynamodb_port, self.folder / "dynamodb.log"),
        ):
            yield

    def run(self, service: str) -> None:
        subprocess.run(
            self.command(service),
            env={**os.environ, **self.environment(service)},
            cwd=ROOT, check=True, timeout=PATIENCE_S, capture_output=True,
        )  # fmt: skip

    def start(self, service: str) -> Process:
        program, *words = self.command(service)
        assert program == "logstore"
        return Process(("logstore.cli.main", *words), environment=self.environment(service))

    def logstore(self, *words: str, stdin: str = "") -> str:
        return subprocess.run(
            [sys.executable, "-m", "logstore.cli.main", *words],
            input=stdin, text=True, check=True, timeout=PATIENCE_S, stdout=subprocess.PIPE,
        ).stdout  # fmt: skip


def test_three_brokers_serve_and_outlive_one_of_them(tmp_path: Path) -> None:
    if why_no_versitygw() or why_no_dynamodb_local():
        pytest.skip("a bucket needs versitygw and DynamoDB Local")
    machine = Machine(read_services(), tmp_path)
    with machine.servers(), ExitStack() as stack:
        machine.run("init")
        machine.run("init")  # both are there now
        brokers = {name: stack.enter_context(machine.start(name)) for name in BROKERS}
        for broker in brokers.values():
            broker.wait_for(" listening on ", deadline_s=PATIENCE_S)
        bootstrap = ",".join(f"127.0.0.1:{port}" for port in machine.outside.values())
        orders = ("orders", "--bootstrap", bootstrap)
        machine.logstore("topics", "create", *orders, "--partitions", "6")
        machine.logstore("produce", *orders, stdin="a\nb\nc\n")
        assert sorted(machine.logstore("consume", *orders).split()) == ["a", "b", "c"]

        brokers["broker-2"].send(signal.SIGKILL)
        brokers["broker-2"].wait()
        machine.logstore("produce", *orders, stdin="d\n")
        assert sorted(machine.logstore("consume", *orders).split()) == ["a", "b", "c", "d"]
        for name in ("broker-1", "broker-3"):
            if name == "broker-3":  # the last one: it has to be the controller
                brokers[name].wait_for("compaction runs here", deadline_s=PATIENCE_S)
            brokers[name].send(signal.SIGTERM)
            assert brokers[name].wait(deadline_s=PATIENCE_S) == 0, brokers[name].lines
