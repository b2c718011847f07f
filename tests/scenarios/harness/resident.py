"""Memory of brokers that live for long, while clients, topics and the registry come and go.

    python -m tests.scenarios.harness.resident --minutes 60
        [--pace 10] [--brokers 3] [--bucket] [--seed N] [--set key=value]… [--directory DIR]

Three broker processes; every partition is led by one and followed by the others. Clients come and
go (`resident_churn`); metrics are scraped every fifteen seconds; the registry is away for a sixth
of the time, in the first quarter. A line a minute says what each broker needs by then; the exit
code is 1 when one of them is not flat (`resident_memory`), or when too little of what was to come
and go did.

On a directory the registry is away for what is written there: another process holds the write lock
of its file. With `--bucket` every byte between brokers and registry is swallowed. `--pace 10` makes
ten times as much come and go: what grows by it shows in minutes.

The report also says how much of it were segments in memory at the same moments, by the brokers' own
metrics: the cache, and what was fetched ahead of consumers.
"""

import argparse
import random
import re
import sqlite3
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGUSR1, SIGUSR2

import psutil

from logstore.stores.backends import EMBEDDED_REGISTRY
from tests.scenarios.harness.bucket import Bucket, Weather, bucket
from tests.scenarios.harness.fleet import Fleet, Server, directory_place, fleet
from tests.scenarios.harness.resident_churn import SECONDS_BETWEEN, Churn
from tests.scenarios.harness.resident_memory import MB, Sample, is_flat, report
from tests.scenarios.harness.series import Place

LOOK_S, SCRAPE_S, SAY_S = 0.05, 15.0, 60.0
SAMPLES = 400
"""Of a run."""
AWAY_FROM, AWAY_UNTIL = 1 / 12, 1 / 4
"""Of the run."""
DONE_MIN = 0.6
"""Share of what was to come and go; topics cannot while the registry is away."""
SEGMENTS = r"(?m)^logstore_(?:cache|read_ahead)_bytes (\S+)$"
SETTINGS = {
    "logstore.delete.grace.ms": 60_000,
    "log.retention.check.interval.ms": 30_000,
    "logstore.cache.bytes": 16 << 20,
    "logstore.index.cache.bytes": 1 << 20,
}
"""So that segments, and what is known of them, go too; and the caches are full in the first
quarter, or their growth to 128 and 32 MiB would hide all else."""


@dataclass(slots=True)
class Residence:
    """One run on brokers that are up; `away` and `back` take the registry away and give it back."""

    brokers: Fleet
    churn: Churn
    seconds: float
    away: Callable[[], None]
    back: Callable[[], None]
    say: Callable[[str], None]
    samples: dict[int, list[Sample]] = field(default_factory=dict)
    segments: dict[int, list[Sample]] = field(default_factory=dict)
    """Bytes of segments in memory, by broker too."""
    _sampled_s: float = 0.0
    _scraped_s: float = 0.0
    _said_s: float = 0.0
    _http: dict[int, int] = field(default_factory=dict)

    def run(self) -> None:
        self._http = {number: self._http_port(number) for number in self.brokers.members}
        self.samples = {number: [] for number in self.brokers.members}
        self.segments = {number: [] for number in self.brokers.members}
        self.churn.begin()
        is_over = threading.Event()
        with ThreadPoolExecutor(1, "looks") as thread:
            looking = thread.submit(self._look_until, is_over)  # also while a client waits
            try:
                self.churn.run(self.seconds)
            finally:
                is_over.set()
            looking.result()
        self.churn.end()

    def _look_until(self, is_over: threading.Event) -> None:
        began_s = time.monotonic()
        while not is_over.wait(LOOK_S):
            self._look(time.monotonic() - began_s)

    def _look(self, now_s: float) -> None:
        is_away = AWAY_FROM <= now_s / self.seconds < AWAY_UNTIL
        if is_away is not self.churn.is_registry_away:
            (self.away if is_away else self.back)()
            self.churn.is_registry_away = is_away
            self.say(f"minute {now_s / 60:.1f}: the registry is {'away' if is_away else 'back'}")
        if now_s >= self._sampled_s:
            self._sampled_s += self.seconds / SAMPLES
            for number, samples in self.samples.items():
                samples.append(Sample(now_s, self._process(number).memory_info().rss))
        if now_s >= self._scraped_s:
            self._scraped_s += SCRAPE_S
            for number, port in self._http.items():
                try:
                    self.segments[number].append(Sample(now_s, _scrape(port)))
                except OSError as error:  # a broker that stands still: the run goes on
                    self.churn.failed["metrics"] += 1
                    self.churn.errors["metrics"] = repr(error)
        if now_s >= self._said_s:
            self._said_s += SAY_S
            sizes = [f"{samples[-1].byte_count / MB:.0f}" for samples in self.samples.values()]
            self.say(f"minute {now_s / 60:.1f}: MB {' / '.join(sizes)}; {dict(self.churn.done)}")

    def _process(self, number: int) -> psutil.Process:
        return psutil.Process(self.brokers.process(number).pid)

    def _http_port(self, number: int) -> int:
        """The one on which it listens beside its Kafka port."""
        ours = self.brokers.members[number].port
        (port,) = (
            one.laddr.port
            for one in self._process(number).net_connections("tcp")
            if one.status == psutil.CONN_LISTEN and one.laddr.port != ours
        )
        return int(port)

    def complaints(self) -> Iterator[str]:
        """Why this run is no proof of flat memory; nothing if it is one."""
        for number, samples in self.samples.items():
            if not is_flat(samples, self.seconds):
                yield f"broker {number} is not flat"
        for kind, every_s in SECONDS_BETWEEN.items():
            planned = self.seconds / every_s * self.churn.pace
            if self.churn.done[kind] < DONE_MIN * planned:
                error = self.churn.errors.get(kind, "")
                yield f"{kind}: {self.churn.done[kind]} of {planned:.0f} {error}"

    def report(self) -> Iterator[str]:
        yield from report(self.samples, self.segments, self.seconds)
        churn = self.churn
        yield f"came and went  {dict(churn.done)}"
        yield f"failed         {dict(churn.failed)}; registry away {dict(churn.failed_while_away)}"
        yield from (f"  last of {kind}: {error}" for kind, error in churn.errors.items())


def live(
    directory: Path,
    *,
    minutes: float,
    pace: float = 1.0,
    brokers: int = 3,
    in_a_bucket: bool = False,
    seed: int = 0,
    settings: Sequence[str] = (),
    say: Callable[[str], None] = print,
) -> Residence:
    """A whole run, below `directory`; `settings` of the brokers, as `key=value`."""
    rng = random.Random(seed)
    more = ["--http", "127.0.0.1:0"]
    ours = [f"{name}={value}" for name, value in SETTINGS.items()]
    for setting in (*ours, *settings):
        more += ["--set", setting]
    with ExitStack() as stack:
        place, its_bucket = directory_place(directory), None
        if in_a_bucket:
            fine = Weather(objects=(), rows=(), latency=0.0)
            its_bucket = stack.enter_context(bucket(directory, fine))
            place = its_bucket.place
        some = stack.enter_context(_fleet(place, its_bucket, brokers, rng, more))
        addresses = [("127.0.0.1", member.advertised) for member in some.members.values()]
        away, back = _swallow(some) if in_a_bucket else _hold(place)
        churn = Churn(addresses, rng, pace)
        residence = Residence(some, churn, minutes * 60, away, back, say)
        residence.run()
        return residence


def _scrape(port: int) -> int:
    """A page of metrics; the bytes of segments in memory by it."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
        return sum(int(float(value)) for value in re.findall(SEGMENTS, page.read().decode()))


def _fleet(
    place: Place, its_bucket: Bucket | None, count: int, rng: random.Random, more: Sequence[str]
) -> AbstractContextManager[Fleet]:
    cut_off_from = [Server.REGISTRY] if its_bucket else []
    return fleet(
        place,
        count,
        rng,
        swallowed=False,
        more=more,
        bucket=its_bucket,
        cut_off_from=cut_off_from,
    )


def _swallow(brokers: Fleet) -> tuple[Callable[[], None], Callable[[], None]]:
    ways = [member.ways[Server.REGISTRY] for member in brokers.members.values()]

    def away() -> None:
        for way in ways:
            way.send(SIGUSR1)

    def back() -> None:
        for way in ways:
            way.send(SIGUSR2)

    return away, back


def _hold(place: Place) -> tuple[Callable[[], None], Callable[[], None]]:
    path = Path(place.url) / EMBEDDED_REGISTRY.removeprefix("sqlite:")
    connection = sqlite3.connect(path, timeout=60.0, isolation_level=None, check_same_thread=False)
    return (
        lambda: _do(connection, "BEGIN IMMEDIATE"),
        lambda: _do(connection, "ROLLBACK"),
    )


def _do(connection: sqlite3.Connection, command: str) -> None:
    connection.execute(command)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--pace", type=float, default=1.0)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--bucket", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--directory", type=Path, help="where to leave the log")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.directory or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        residence = live(
            directory,
            minutes=options.minutes,
            pace=options.pace,
            brokers=options.brokers,
            in_a_bucket=options.bucket,
            seed=options.seed,
            settings=options.set,
        )
    for line in residence.report():
        print(line)
    complaints = list(residence.complaints())
    for line in complaints:
        print(f"resident: {line}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
