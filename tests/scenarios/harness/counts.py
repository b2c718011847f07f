"""What was asked of S3 and DynamoDB, counted by the fault proxies and by the brokers themselves.

A broker that is killed says nothing any more, so it leaves its counts in a file all the time; what
it asked in the last tenth of a second is missing.
"""

import atexit
import http.client
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from logstore.objects.metered import KindCounts, StoreCounts
from logstore.prices import Requests, cost_of
from logstore.testing.fault_plan import FAULTS
from logstore.testing.fault_proxy import CONTROL_PATH

EVERY_S = 0.1
ANSWER_S = 10.0

NameOf = Callable[[str, str], str | None]
"""Method and outcome to the name they are counted under, or None."""


def leave_counts(counts: StoreCounts, path: Path) -> None:
    """Write them to `path` from now on until this process ends, and once more then."""
    over = threading.Event()

    def write() -> None:
        found = counts.snapshot()
        text = json.dumps({kind: [c.calls, c.bytes, c.errors] for kind, c in found.items()})
        new = path.with_suffix(".new")
        new.write_text(text)
        new.replace(path)

    def run() -> None:
        while not over.wait(EVERY_S):
            write()
        write()

    writer = threading.Thread(target=run, daemon=True)

    def end() -> None:
        over.set()
        writer.join()

    atexit.register(end)
    writer.start()


@dataclass(frozen=True, slots=True)
class Metered:
    """Calls, bytes and errors of several brokers together, by their own meters."""

    by_kind: Mapping[str, KindCounts]

    @classmethod
    def read(cls, paths: Iterable[Path]) -> "Metered":
        sums: dict[str, KindCounts] = {}
        for path in paths:
            for kind, (calls, moved_bytes, errors) in json.loads(path.read_text()).items():
                was = sums.get(kind, KindCounts())
                sums[kind] = KindCounts(
                    was.calls + calls, was.bytes + moved_bytes, was.errors + errors
                )
        return cls(sums)

    def requests(self) -> Requests:
        calls = {kind: counts.calls for kind, counts in self.by_kind.items()}
        return Requests(
            creates=calls.get("create", 0),
            gets=calls.get("get", 0) + calls.get("get_range", 0),
            lists=calls.get("list", 0),
            deletes=calls.get("delete", 0),
        )

    def __str__(self) -> str:
        reported = ", ".join(
            f"{kind} {counts.calls} ({counts.errors} failed, {counts.bytes / 1e6:.1f} MB)"
            for kind, counts in self.by_kind.items()
            if counts.calls
        )
        return f"{reported}; {cost_of(self.requests()):.4f} dollars"


@dataclass(frozen=True, slots=True)
class ProxyCounts:
    """What one proxy counted, under the names it uses."""

    counts: Mapping[str, int]

    @classmethod
    def ask(cls, endpoint: str) -> "ProxyCounts":
        where = urlsplit(endpoint)
        connection = http.client.HTTPConnection(where.netloc, timeout=ANSWER_S)
        try:
            connection.request("GET", CONTROL_PATH)
            return cls(json.loads(connection.getresponse().read())["counts"])
        finally:
            connection.close()

    def requests(self) -> Counter[str]:
        """By method; what became of late ones is no request of its own."""
        return self._sums(lambda method, _: method)

    def answers(self) -> Counter[str]:
        return self._sums(
            lambda method, outcome: None if outcome in FAULTS else f"{method} {outcome}"
        )

    def faults(self) -> Counter[str]:
        return self._sums(lambda _, outcome: outcome if outcome in FAULTS else None)

    def late(self) -> Counter[str]:
        return Counter({name: n for name, n in self.counts.items() if name.startswith("late ")})

    def report(self, name: str) -> Iterator[str]:
        requests, faults = self.requests(), self.faults()
        yield f"{name:14} {_listed(requests)}: {requests.total()} requests, {faults.total()} faults"
        yield f"  answers      {_listed(self.answers())}"
        yield f"  faults       {_listed(faults)}"
        if self.late():
            yield f"  came late    {_listed(self.late())}"

    def _sums(self, name_of: NameOf) -> Counter[str]:
        sums: Counter[str] = Counter()
        for counted, count in self.counts.items():
            method, _, outcome = counted.partition(" ")
            name = None if method == "late" else name_of(method, outcome)
            if name is not None:
                sums[name] += count
        return sums


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"
