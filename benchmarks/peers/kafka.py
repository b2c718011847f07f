"""Apache Kafka, KRaft nodes on a directory; jars by Maven, cached outside the checkout.

Same durability setting as shipped (no fsync per batch), 1 GiB heap, G1 as its start script sets it.
Each node is broker and controller. Three keep three copies of everything, two of which must be in
sync, as clusters are commonly run.
"""

import fcntl
import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import psutil

from benchmarks.peers.server import Server, spawn, stop, wait_for_brokers

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
    """The folder of Kafka's jars, fetched with Maven the first time, by one process."""
    folder = cache_directory() / f"kafka-{VERSION}"
    done = folder / ".done"
    if done.exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            command = ["mvn", "-B", "-q", "-f", str(POM), "dependency:copy-dependencies"]
            command += ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
            subprocess.run(command, check=True)
            done.touch()
    return folder


def start_kafka(
    directory: Path, *, nodes: int = 1, settings: Mapping[str, str] = MappingProxyType({})
) -> Server:
    """`settings`: of each broker. Raises `RuntimeError` with its log when it does not come up."""
    java = ["java", *_HEAP, "-cp", f"{fetch_jars()}/*"]
    ports = [_free_port() for _ in range(nodes)]
    controllers = [_free_port() for _ in range(nodes)]
    made = subprocess.run(
        [*java, "kafka.tools.StorageTool", "random-uuid"], capture_output=True, check=True
    )
    cluster = made.stdout.decode().strip().splitlines()[-1]
    files = []
    for node in range(1, nodes + 1):
        files.append(directory / f"server-{node}.properties")
        files[-1].write_text(_properties(directory, node, ports, controllers, settings))
        arguments = ["format", "-t", cluster, "-c", str(files[-1])]
        format_it = [*java, "kafka.tools.StorageTool", *arguments]
        subprocess.run(format_it, capture_output=True, check=True)
    began = time.perf_counter()
    logs = [path.with_suffix(".log") for path in files]
    processes = [
        spawn([*java, "kafka.Kafka", str(path)], log) for path, log in zip(files, logs, strict=True)
    ]
    bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
    try:
        for child, port, log in zip(processes, ports, logs, strict=True):
            _wait_until_it_accepts(child, port, log)
        took_s = time.perf_counter() - began
        if nodes > 1:
            wait_for_brokers(bootstrap, nodes)
    except BaseException:
        stop(processes)
        raise
    return Server("kafka", bootstrap, [*processes], directory, took_s, replicas=nodes)


def kill_and_restart(server: Server, node: int) -> None:
    """Kill a node, by its number from 1, with no chance to end well, and start it again."""
    process = server.processes[node - 1]
    command = process.cmdline()
    process.kill()
    process.wait(READY_S)
    log = server.directory / f"server-{node}-again.log"
    child = spawn(command, log)
    server.processes[node - 1] = child
    port = int(server.bootstrap.split(",")[node - 1].rpartition(":")[2])
    _wait_until_it_accepts(child, port, log)


def _wait_until_it_accepts(child: psutil.Popen, port: int, log: Path) -> None:
    deadline_s = time.monotonic() + READY_S
    while not _accepts(port):
        if child.poll() is not None or time.monotonic() > deadline_s:
            raise RuntimeError(f"Apache Kafka did not start: {log.read_text()[-2000:]}")
        time.sleep(0.05)


def _properties(
    directory: Path,
    node: int,
    ports: Sequence[int],
    controllers: Sequence[int],
    settings: Mapping[str, str],
) -> str:
    port, controller, copies = ports[node - 1], controllers[node - 1], str(len(ports))
    voters = [f"{number}@127.0.0.1:{place}" for number, place in enumerate(controllers, 1)]
    lines = {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "controller.quorum.voters": ",".join(voters),
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(directory / f"data-{node}"),
        "num.partitions": "4",
        "default.replication.factor": copies,
        "min.insync.replicas": "2" if len(ports) > 1 else "1",
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "offsets.topic.num.partitions": "1",
        "message.max.bytes": "8388608",
        **settings,
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
