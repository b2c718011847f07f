"""Where the log of a case lies: a directory, or a bucket as far away as S3 is.

    directory   below the case's folder; its registry is a file there
    s3          versitygw and DynamoDB Local, each behind the fault proxy: the latency of S3 in one
                region, no faults. A log is filled without it (`near`), and measured with it (`far`)

A bucket's requests are counted by its proxy, so alike for every reader.
"""

import http.client
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from benchmarks.options import Options
from benchmarks.peers.server import stop
from logstore.formats.keys import CHAINS
from logstore.ports.clock import SystemClock, blocking_sleep_s
from logstore.registry.dynamodb_json.url import TableUrl
from logstore.testing.fault_proxy import CONTROL_PATH
from logstore.wiring.initialise import InitPorts, initialise
from logstore.wiring.open import open_objects
from tests.servers.buckets import s3_client
from tests.servers.dynamodb_local import dynamodb_local, why_no_dynamodb_local
from tests.servers.locked_moto import REGION, aws_environment
from tests.servers.versitygw import versitygw, why_no_versitygw

BUCKET, TABLE = "logstore-benchmarks", "logstore-benchmarks"
ANSWER_S = 10.0
SEGMENT_BYTES_MIN = 2048
"""Openings and seals are smaller."""

_LISTENS = re.compile(r"listening on (\S+)")


@dataclass(frozen=True, slots=True)
class Fetched:
    """GETs of a bucket, of objects and ranges, and the bytes of their answers."""

    gets: int
    got_bytes: int


@dataclass(frozen=True, slots=True)
class LogPlace:
    """`storage` are the settings that a bucket is reached with; `proxy` is the one before it."""

    url: str
    storage: Mapping[str, str] = field(default_factory=dict)
    state_directory: Path | None = None
    proxy: str | None = None

    @property
    def arguments(self) -> list[str]:
        """Of a broker."""
        found = ["--url", self.url]
        for name, value in self.storage.items():
            found += ["--set", f"{name}={value}"]
        if self.state_directory is not None:
            found += ["--state-dir", str(self.state_directory)]
        return found

    def near(self) -> None:
        """Objects without latency, from now on."""
        self._control({"latency": 0.0})

    def far(self) -> None:
        """With the latency of S3; what is counted begins at 0."""
        self._control({"latency": 1.0})

    def fetched(self) -> Fetched | None:
        """Since `far`. None: nothing counts the requests of a directory."""
        found = self._control(None)
        if found is None:
            return None
        gets = sum(count for name, count in found["counts"].items() if name.startswith("GET "))
        return Fetched(gets, found["bytes"].get("GET", 0))

    def segment_count(self) -> int:
        """Objects of chains that hold batches."""
        store = open_objects(self.url, self.storage)
        try:
            return sum(one.size_bytes >= SEGMENT_BYTES_MIN for one in store.list(CHAINS))
        finally:
            store.close()

    def _control(self, wanted: Mapping[str, float] | None) -> Any:
        """The proxy's state, changed first if `wanted`."""
        if self.proxy is None:
            return None
        connection = http.client.HTTPConnection(self.proxy, timeout=ANSWER_S)
        try:
            method, body = ("GET", None) if wanted is None else ("PUT", json.dumps(wanted))
            connection.request(method, CONTROL_PATH, body)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


@contextmanager
def log_place(options: Options, directory: Path) -> Iterator[LogPlace]:
    """An empty place for a log; in a bucket an empty log. It begins `near`.

    A bucket's credentials are in this process's environment until the end. Raises `RuntimeError`
    where its servers cannot run, with what is missing.
    """
    if options.store == "directory":
        yield LogPlace(str(directory / "data"))
        return
    if missing := why_no_versitygw() or why_no_dynamodb_local():
        raise RuntimeError(missing)
    with (
        aws_environment(),
        versitygw(directory) as objects,
        dynamodb_local(directory) as rows,
        _proxy(objects, options, latency=0.0) as objects_proxy,
        _proxy(rows, options, latency=1.0) as rows_proxy,
    ):
        s3_client(objects).create_bucket(Bucket=BUCKET)
        url, storage = f"s3://{BUCKET}/log", {"storage.endpoint": f"http://{objects_proxy}"}
        table = str(TableUrl(TABLE, REGION, f"http://{rows_proxy}"))
        around = InitPorts(SystemClock(), random.Random(1), blocking_sleep_s, "benchmarks")
        initialise(url, table, storage, around)
        yield LogPlace(url, storage, directory / "state", objects_proxy)


@contextmanager
def _proxy(behind: str, options: Options, *, latency: float) -> Iterator[str]:
    """The host and port of a fault proxy before the server at the endpoint `behind`."""
    command = [sys.executable, "-m", "logstore.testing.fault_proxy"]
    command += ["--upstream", urlsplit(behind).netloc, "--latency", str(latency)]
    command += ["--seed", str(options.seed)]
    command += [part for spread in options.spreads for part in ("--spread", spread)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            line = child.stdout.readline().decode()
            listens = _LISTENS.search(line)
            if listens is None:
                raise RuntimeError(f"the proxy did not start: {line}")
            yield listens[1]
        finally:
            stop([psutil.Process(child.pid)])
