"""Apache Kafka in a child process, for tests that hold ours against it; jars as for benchmarks."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.peers.kafka import fetch_jars
from tests.servers.child import free_port, running_child
from tests.servers.short_java import JAVA_OPTIONS
from tests.spark_source.kafka_source import kafka_source_jars

JAVA = ("java", "-Xms256m", "-Xmx512m", *JAVA_OPTIONS)
CLUSTER = "bG9nc3RvcmUtdGVzdHMtMQ"


def can_compare() -> bool:
    """Whether Apache Kafka and Spark's source for it are here, or could be fetched."""
    if not kafka_source_jars():
        return False
    try:
        fetch_jars()
    except (OSError, subprocess.SubprocessError):
        return False
    return True


@contextmanager
def apache_kafka(directory: Path) -> Iterator[str]:
    """Its bootstrap server, once it accepts connections; its data goes with it."""
    directory.mkdir(parents=True)
    port = free_port()
    properties = directory / "server.properties"
    properties.write_text(_properties(directory, port, free_port()))
    java = [*JAVA, "-cp", f"{fetch_jars()}/*"]
    tool = ["kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(properties)]
    subprocess.run([*java, *tool], capture_output=True, check=True)
    try:
        with running_child([*java, "kafka.Kafka", str(properties)], port, directory / "log"):
            yield f"127.0.0.1:{port}"
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _properties(directory: Path, port: int, controller: int) -> str:
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(directory / "data"),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())
