"""A logstore broker on a directory, as a child process."""

import re
import subprocess
import sys
import time
from pathlib import Path

import psutil

from benchmarks.peers.server import Server

_ACCEPTS = re.compile(r"listening on (\S+)")


def start_logstore(directory: Path) -> Server:
    """Raises `RuntimeError` with what it said when it does not accept connections."""
    data, log = directory / "data", directory / "broker.log"
    command = [sys.executable, "-m", "broker", "--url", str(data), "--listen", "127.0.0.1:0"]
    command += ["--set", "num.partitions=4", "--set", "message.max.bytes=8388608"]
    began = time.perf_counter()
    with log.open("wb") as errors:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
    assert child.stdout is not None
    line = child.stdout.readline().decode()
    found = _ACCEPTS.search(line)
    if found is None:
        child.kill()
        raise RuntimeError(f"the broker did not start: {line} {log.read_text()}")
    took_s = time.perf_counter() - began
    return Server("logstore", found[1], psutil.Process(child.pid), data, took_s)
