"""The cost of TLS: one broker, plain and with keys of two kinds, and clients that connect again.

    produce, fetch          MB per CPU-second of the broker, batches of 1 MB by one connection
    idle connection KiB     RSS of 500 connections that were used once
    connection CPU ms       accept, handshake and one request, of the broker, all threads
    longest hold ms         of the event loop while 8 threads connect

Clients resume no session, so each handshake is whole. `--scale` is that of all counts.
"""

import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import psutil

from benchmarks.contenders import Contenders, on_servers
from benchmarks.cpu import cpu_ms
from benchmarks.options import Options
from benchmarks.peers.holds import longest_hold
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.server import Server, Start
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.wire.framing.client import Connection
from logstore.wire.framing.client_security import ClientSecurity
from logstore.wire.messages.api_versions import ApiVersionsRequest
from logstore.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from logstore.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from logstore.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

BATCH_BYTES, BATCHES = 1_000_000, 300
IDLE, RECONNECTS, THREADS = 500, 400, 8
PRODUCE, FETCH, API_VERSIONS, CREATE_TOPICS = 0, 1, 18, 19
PAIR = "pair.pem"
KEYS: Mapping[str, Sequence[str]] = {
    "SSL P-256": ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
    "SSL RSA-4096": ("-newkey", "rsa:4096"),
}


def contenders(options: Options) -> Contenders:
    starts: dict[str, Start] = {"plain": partial(start_logstore, is_held=True)}
    starts |= {name: partial(_start_secured, key) for name, key in KEYS.items()}
    return on_servers(starts, _run, options)


def _start_secured(key: Sequence[str], directory: Path) -> Server:
    pair = directory / PAIR
    command = ["openssl", "req", "-x509", *key, "-nodes", "-subj", "/CN=localhost", "-days", "2"]
    done = subprocess.run(
        [*command, "-keyout", "-", "-out", "-"], capture_output=True, check=True, timeout=60
    )
    pair.write_bytes(done.stdout)
    settings = ("listener.security.protocol.map=PLAINTEXT:SSL", f"ssl.keystore.location={pair}")
    return start_logstore(directory, is_held=True, settings=settings)


def _run(server: Server, options: Options) -> Mapping[str, float]:
    connect = _connect(server)
    (process,) = server.processes
    with connect() as client:
        rates = _throughput(client, process, max(5, int(BATCHES * options.scale)))
        idle = max(10, int(IDLE * options.scale))
        before = server.rss_bytes()
        held = [_used(connect()) for _ in range(idle)]
        time.sleep(1.0)
        idle_kib = (server.rss_bytes() - before) / 1024 / idle
        for one in held:
            one.close()
        count = max(THREADS, int(RECONNECTS * options.scale))
        longest_hold(server)
        began_ms, began_s = cpu_ms(process), time.perf_counter()
        _reconnect(connect, count)
        took_s, spent_ms = time.perf_counter() - began_s, cpu_ms(process) - began_ms
    return {
        **rates,
        "idle connection KiB": idle_kib,
        "connection CPU ms": spent_ms / count,
        "connections per s": count / took_s,
        "longest hold ms": longest_hold(server).ms,
    }


def _connect(server: Server) -> Callable[[], Connection]:
    host, _, port = server.bootstrap.rpartition(":")
    if not (server.directory.parent / PAIR).exists():
        return partial(Connection.open, host, int(port), 30.0)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return partial(Connection.open, host, int(port), 30.0, security=ClientSecurity(context))


def _throughput(client: Connection, process: psutil.Process, count: int) -> dict[str, float]:
    topic = [CreatableTopic("t", 1, 1)]
    client.call(CREATE_TOPICS, CreateTopicsRequest(topic, 30_000))
    batch = encode_batch([Record(0, 1_700_000_000_000, None, bytes(BATCH_BYTES))])
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(0, batch)])
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
    before_ms = cpu_ms(process)
    for _ in range(count):
        answer = client.call(PRODUCE, request)
        assert answer.responses[0].partition_responses[0].error_code == 0
    produced_ms, before_ms, offset = cpu_ms(process) - before_ms, cpu_ms(process), 0
    while offset < count:
        wanted = FetchPartition(0, -1, offset, partition_max_bytes=8 * BATCH_BYTES)
        asked = FetchRequest(
            -1, 500, 1, 8 * BATCH_BYTES, topics=[FetchTopic("t", partitions=[wanted])]
        )
        found = client.call(FETCH, asked, 12).responses[0].partitions[0].records
        assert found
        offset += round(len(found) / len(batch))
    mb = count * len(batch) / 1e6
    fetched_ms = cpu_ms(process) - before_ms
    return {
        "produce MB per CPU-s": mb / produced_ms * 1e3,
        "fetch MB per CPU-s": mb / fetched_ms * 1e3,
    }


def _used(connection: Connection) -> Connection:
    connection.call(API_VERSIONS, ApiVersionsRequest("bench", "1"))
    return connection


def _reconnect(connect: Callable[[], Connection], count: int) -> None:
    def work() -> None:
        for _ in range(count // THREADS):
            _used(connect()).close()

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
