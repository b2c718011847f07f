"""Apache Kafka, one KRaft node on a directory; jars by Maven, cached outside the checkout.

Same durability setting as shipped (no fsync per batch), 1 GiB heap, G1 as its start script sets it.
"""

import os
import socket
import subprocess
import time
from pathlib import Path

import psutil

from benchmarks.peers.server import Server, spawn

POM = Path(__file__).with_name("kafka.pom.xml")
VERSION = "4.3.1"
READY_S = 60.0
_HEAP = ["-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
_HEAP += ["-XX:InitiatingHeapOccupancyPercent=35"]


def cache_directory() -> Path:
    """Where downloads are kept between runs."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "logstore"
    return Path(os.environ.get("LOGSTORE_CACHE", default))


def fetch_jars() -> Path:
    """The folder of Kafka's jars, fetched with Maven the first time."""
    folder = cache_directory() / f"kafka-{VERSION}"
    done = folder / ".done"
    if not done.exists():
        command = ["mvn", "-B", "-q", "-f", str(POM), "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
        subprocess.run(command, check=True)
        done.touch()
    return folder


def start_kafka(directory: Path) -> Server:
    """Raises `RuntimeError` with its log when it does not come up."""
    jars = fetch_jars()
    port, controller = _free_port(), _free_port()
    properties = directory / "server.properties"
    properties.write_text(_properties(directory, port, controller))
    java = ["java", *_HEAP, "-cp", f"{jars}/*"]
    made = subprocess.run(
        [*java, "kafka.tools.StorageTool", "random-uuid"], capture_output=True, check=True
    )
    cluster = made.stdout.decode().strip().splitlines()[-1]
    arguments = ["format", "-t", cluster, "-c", str(properties)]
    subprocess.run([*java, "kafka.tools.StorageTool", *arguments], capture_output=True, check=True)
    began = time.perf_counter()
    log = directory / "kafka.log"
    child = spawn([*java, "kafka.Kafka", str(properties)], log)
    while not _accepts(port):
        if child.poll() is not None or time.perf_counter() - began > READY_S:
            child.kill()
            raise RuntimeError(f"Apache Kafka did not start: {log.read_text()[-2000:]}")
        time.sleep(0.05)
    took_s = time.perf_counter() - began
    process = psutil.Process(child.pid)
    return Server("kafka", f"127.0.0.1:{port}", process, directory, took_s)


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
        "num.partitions": "4",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "message.max.bytes": "8388608",
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
