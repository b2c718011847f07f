"""Requests of brokers to store and registry so far: written on a signal, read by cases."""

import json
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.counted_registry import RegistryCounts
from benchmarks.peers.server import Server
from logstore.objects.metered import StoreCounts

ANSWER_S = 10.0


@dataclass(frozen=True, slots=True)
class Counts:
    """One broker's. `store` are calls, `store_bytes` their bytes, `registry` calls and `units`
    their cost: each by kind."""

    store: Counter[str]
    store_bytes: Counter[str]
    registry: Counter[str]
    units: Counter[str]

    def since(self, earlier: "Counts") -> "Counts":
        return Counts(
            self.store - earlier.store,
            self.store_bytes - earlier.store_bytes,
            self.registry - earlier.registry,
            self.units - earlier.units,
        )


def write_counts(path: Path, store: StoreCounts, registry: RegistryCounts) -> None:
    found = store.snapshot()
    text = json.dumps(
        {
            "store": {kind: one.calls for kind, one in found.items()},
            "store_bytes": {kind: one.bytes for kind, one in found.items()},
            "registry": registry.calls,
            "units": registry.units,
        }
    )
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def read_counts(server: Server) -> list[Counts]:
    """Of every broker, now."""
    for path, process in zip(server.counts, server.processes, strict=True):
        path.unlink(missing_ok=True)
        process.send_signal(signal.SIGUSR1)
    deadline_s = time.monotonic() + ANSWER_S
    return [_read(path, deadline_s) for path in server.counts]


def counts_between(before: Sequence[Counts], after: Sequence[Counts]) -> list[Counts]:
    return [now.since(then) for then, now in zip(before, after, strict=True)]


def _read(path: Path, deadline_s: float) -> Counts:
    while not path.exists():
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"a broker does not say what it asked: {path}")
        time.sleep(0.01)
    found = {name: Counter(values) for name, values in json.loads(path.read_text()).items()}
    return Counts(**found)
