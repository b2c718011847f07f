"""How long clients hear nothing when a leader is killed: three brokers, one of them is killed.

Three clients, each a producer and a consumer (`benchmarks.peers.silence`), run beside each other,
so that each kill is one of all of them. Killed is the broker that leads the most, with SIGKILL; it
is started again, and the next kill comes when all is led evenly again. --partitions takes its first
number, --scale the number of kills (10 at 1), `--load busy` keeps both cores busy, `--load killed`
alone does not; `--store s3` puts our log behind the latency of S3.
"""

import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
from confluent_kafka.admin import AdminClient

from benchmarks.contenders import Contenders, on_log, on_servers
from benchmarks.load import new_topic
from benchmarks.options import Options
from benchmarks.peers.kafka import fetch_jars, start_kafka
from benchmarks.peers.server import READY_S, Server, spawn, stop
from benchmarks.peers.silence import JAVA, SilentClient
from tests.clients.other_languages import program_of, why_not

BROKERS, KILLS = 3, 10
HEARD_S = 6.0
"""After a kill, in which every client is served again, or its silence counts as so long."""
SETTLE_S = 60.0
QUIET_S = 6.0
"""Without a change of leaders before a kill: franz-go asks for metadata at most each 5 s."""
LOADS = ("killed", "busy")
_SPINS = "while True: pass"


def contenders(options: Options) -> Contenders:
    found = on_log(_run, options, brokers=BROKERS)
    if options.has_peer:
        found |= on_servers({"kafka": partial(start_kafka, nodes=BROKERS)}, _run, options)
    return found


def _run(server: Server, options: Options) -> Mapping[str, float]:
    partitions = options.partitions[0]
    topic = new_topic(server.bootstrap, partitions=partitions, replicas=BROKERS)
    figures: dict[str, float] = {}
    with _clients((server.bootstrap, topic, str(partitions))) as clients:
        for load in (one for one in LOADS if one.startswith(options.load)):
            with _busy() if load == "busy" else _idle():
                figures |= _kill_again_and_again(server, topic, clients, load, options.scale)
    return figures


def _kill_again_and_again(
    server: Server, topic: str, clients: Mapping[str, SilentClient], load: str, scale: float
) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for _ in range(max(1, round(KILLS * scale))):
        _wait_until_even(server, topic, clients)
        number = _leader_of_most(server, topic)
        for client in clients.values():
            client.take()
        _kill(server, number)
        time.sleep(HEARD_S)
        for name, client in clients.items():
            silence = client.take()
            assert silence is not None
            found.setdefault(f"{load}: {name} producer", []).append(silence.producer_s)
            found.setdefault(f"{load}: {name} consumer", []).append(silence.consumer_s)
        _start_again(server, number)
    print(found, file=sys.stderr)
    return {
        f"{name} {what}": figure(times)
        for name, times in found.items()
        for what, figure in (("p50 s", statistics.median), ("worst s", max))
    }


@contextmanager
def _clients(arguments: Sequence[str]) -> Iterator[dict[str, SilentClient]]:
    commands: dict[str, Sequence[str]] = {
        "librdkafka": [sys.executable, "-m", "benchmarks.peers.silence"],
        "java": ["java", "-Xmx256m", "-cp", f"{fetch_jars()}/*", str(JAVA)],
    }
    if missing := why_not("franz"):
        print(missing, file=sys.stderr)
    else:
        commands["franz-go"] = [*program_of("franz"), "silence"]
    clients = {name: SilentClient(command, arguments) for name, command in commands.items()}
    try:
        yield clients
    finally:
        for client in clients.values():
            client.end()


@contextmanager
def _busy() -> Iterator[None]:
    """As many processes as cores that do nothing else."""
    spinning = [
        subprocess.Popen([sys.executable, "-c", _SPINS]) for _ in range(psutil.cpu_count() or 1)
    ]
    try:
        yield
    finally:
        for child in spinning:
            child.kill()
            child.wait()


@contextmanager
def _idle() -> Iterator[None]:
    yield


def _leaders(server: Server, topic: str) -> Counter[int]:
    admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
    shown = admin.list_topics(topic, timeout=30).topics[topic].partitions.values()
    return Counter(one.leader for one in shown)


def _leader_of_most(server: Server, topic: str) -> int:
    ((number, _),) = _leaders(server, topic).most_common(1)
    return int(number)


def _wait_until_even(server: Server, topic: str, clients: Mapping[str, SilentClient]) -> None:
    """All are heard, and every broker leads; or it is late, and the next kill is of what is."""
    deadline_s = time.monotonic() + SETTLE_S
    while time.monotonic() < deadline_s:
        silences = [client.take() for client in clients.values()]
        if None not in silences and len(_leaders(server, topic)) == BROKERS:
            break
        time.sleep(0.5)
    time.sleep(QUIET_S)


def _kill(server: Server, number: int) -> None:
    process = server.processes[number - 1]
    process.kill()
    process.wait()


def _start_again(server: Server, number: int) -> None:
    """With the same command, on the address that it had."""
    address = server.bootstrap.split(",")[number - 1]
    killed = server.processes[number - 1]
    command = [re.sub(r"^127\.0\.0\.1:0$", address, part) for part in killed.args]
    log = server.directory.parent / f"again-{number}.log"
    server.processes[number - 1] = spawn(command, log)
    if killed.stdout is not None:
        killed.stdout.close()
    deadline_s = time.monotonic() + READY_S
    while not _accepts(address):
        if time.monotonic() > deadline_s:
            stop(server.processes)
            raise RuntimeError(f"a broker did not start again: {Path(log).read_text()[-2000:]}")
        time.sleep(0.05)


def _accepts(address: str) -> bool:
    import socket

    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, int(port))) == 0
