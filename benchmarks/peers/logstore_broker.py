"""Brokers of one log, as child processes."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from benchmarks.peers.log_place import LogPlace
from benchmarks.peers.server import Server, stop, wait_for_brokers

_ACCEPTS = re.compile(r"listening on (\S+)")
_SETTINGS = ("num.partitions=4", "message.max.bytes=8388608")


def start_logstore(
    directory: Path,
    *,
    brokers: int = 1,
    is_counted: bool = False,
    is_held: bool = False,
    profiles: Path | None = None,
    place: LogPlace | None = None,
    settings: Sequence[str] = (),
) -> Server:
    """Raises `RuntimeError` with their output when one does not accept connections.

    The log lies at `place`, else in `directory`, where other files of the brokers go.
    """
    place = place or LogPlace(str(directory / "data"))
    data = directory / "data" if "://" in place.url else Path(place.url)
    processes: list[psutil.Process] = []
    addresses: list[str] = []
    counts: list[Path] = []
    began = time.perf_counter()
    try:
        for number in range(1, brokers + 1):
            looks: Sequence[str] = ()
            if is_counted or is_held:
                counts.append(directory / f"counts-{number}.json")
                looks = ("--counts" if is_counted else "--holds", str(counts[-1]))
            elif profiles is not None:
                looks = ("--profile", str(profiles / f"broker {number} of {brokers}.prof"))
            command = _module(looks)
            command += [*place.arguments, "--broker", str(number), "--listen", "127.0.0.1:0"]
            command += [part for one in (*_SETTINGS, *settings) for part in ("--set", one)]
            log = directory / f"broker-{number}.log"
            with log.open("wb") as errors:
                child = psutil.Popen(command, stdout=subprocess.PIPE, stderr=errors)
            processes.append(child)
            addresses.append(_address(child, log))
        took_s = time.perf_counter() - began
        bootstrap = ",".join(addresses)
        if brokers > 1:
            wait_for_brokers(bootstrap, brokers)
        if profiles is not None:
            for process in processes:
                process.send_signal(signal.SIGUSR1)
    except BaseException:
        stop(processes)
        raise
    return Server("logstore", bootstrap, processes, data, took_s, counts=counts)


def _module(looks: Sequence[str]) -> list[str]:
    """The broker as it is, or one that is looked into."""
    if not looks:
        return [sys.executable, "-m", "broker"]
    return [sys.executable, "-m", "benchmarks.peers.launch", *looks, "--"]


def _address(child: psutil.Popen, log: Path) -> str:
    assert child.stdout is not None
    line = child.stdout.readline().decode()
    found = _ACCEPTS.search(line)
    if found is None:
        raise RuntimeError(f"the broker did not start: {line} {log.read_text()}")
    return found[1]
