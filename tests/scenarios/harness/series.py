"""The kill -9 series: one broker on a directory, killed again and again under load.

    python -m tests.scenarios.harness.series --kills 50 [--seed N] [--directory DIR]

Four processes: the broker (started again after each death, on the same port), the load, the watch,
and at the end the judge, which reads the objects. Kills by name:

    before put       as a segment of the load is about to be put
    after put        its put is done, nobody has been told
    random moment    from outside, under load
    checkpoint       before or after a checkpoint that falls due under load is put
    in replay        at the n-th read of a start
    in seal          before or after the seal of the predecessor's chain is put
    rows             between two rows that a takeover changes
    opening          the opening of a chain is put, the registry does not know yet

The first four happen under load: only once enough is acknowledged after the start, and enough
batches are on their way.
"""

import argparse
import json
import random
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from tests.scenarios.harness.death import Death
from tests.scenarios.harness.process import Process
from tests.scenarios.harness.values import Entry, Kind, read_journal

TOPIC = "kills"
PARTITIONS = 8
PRODUCERS = 48
ON_THEIR_WAY_MIN = 150
"""What the load must have on its way before a kill; at the kill itself it is measured."""
ACKED_BEFORE_KILL = 1_500
START_S = 60.0
RATE_WINDOW_S = 0.5
UNDER_LOAD = ("before put", "after put", "random moment", "checkpoint")
SHARES = {
    "before put": 10,
    "after put": 10,
    "in replay": 10,
    "in seal": 10,
    "random moment": 5,
    "checkpoint": 2,
    "rows": 2,
    "opening": 1,
}
"""Of 50 kills."""


@dataclass(frozen=True, slots=True)
class Kill:
    kind: str
    at_s: float
    batches_unanswered: int | None
    """What the broker itself had in frozen segments; unknown when killed from outside."""


@dataclass(frozen=True, slots=True)
class UnderLoad:
    """What clients had on their way as the broker died under load."""

    kill: Kill
    batches_unacknowledged: int
    batches_per_s: float


@dataclass(frozen=True, slots=True)
class Outcome:
    kills: Sequence[Kill]
    under_load: Sequence[UnderLoad]
    verdict: dict[str, Any]
    seconds: float

    @property
    def anomalies(self) -> dict[str, int]:
        found: dict[str, int] = self.verdict["anomalies"]
        return found

    def kills_by_kind(self) -> Counter[str]:
        return Counter(kill.kind for kill in self.kills)

    def report(self) -> Iterator[str]:
        verdict, found = self.verdict, Counter(self.anomalies)
        kinds = ", ".join(f"{kind} {count}" for kind, count in self.kills_by_kind().items())
        yield f"kills         {len(self.kills)} in {self.seconds:.0f} s: {kinds}"
        yield (
            f"records       sent {verdict['sent']}, acknowledged {verdict['acked']}, "
            f"in the objects {verdict['stored']}; watermarks seen {verdict['watermarks']}"
        )
        yield (
            f"found         lost {found['lost']}, doubled {found['doubled']}, "
            f"out of order {found['disordered']}, all anomalies {sum(found.values())}"
        )
        if not self.under_load:
            return
        rates = [one.batches_per_s for one in self.under_load]
        waiting = [one.batches_unacknowledged for one in self.under_load]
        yield (
            f"load          batches/s before a kill: median {statistics.median(rates):.0f}, "
            f"min {min(rates):.0f}; one record each"
        )
        yield (
            f"unacknowledged at a kill under load: median {statistics.median(waiting):.0f}, "
            f"min {min(waiting)}"
        )
        for one in self.under_load:
            told = one.kill.batches_unanswered
            frozen = "" if told is None else f", {told} of them in a put"
            yield (
                f"  {one.kill.kind:14} {one.batches_unacknowledged:4} unacknowledged{frozen}; "
                f"{one.batches_per_s:.0f} batches/s"
            )


def plan(kills: int, chance: random.Random) -> list[str]:
    """Kinds in random order, in the shares given; each at least once if there is room."""
    whole = sum(SHARES.values())
    counts = {kind: max(1, share * kills // whole) for kind, share in SHARES.items()}
    kinds = [kind for kind, count in counts.items() for _ in range(count)]
    while len(kinds) < kills:
        kinds.append("random moment")
    chance.shuffle(kinds)
    return kinds[:kills]


class Series:
    def __init__(self, directory: Path, seed: int) -> None:
        self._directory = directory
        self._chance = random.Random(seed)
        self._port = free_port(self._chance)
        self._kills: list[Kill] = []
        self._report = directory / "death.json"

    @property
    def _bootstrap(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def _url(self) -> str:
        return str(self._directory / "log")

    def run(self, kills: int) -> Outcome:
        began = time.monotonic()
        with ExitStack() as stack:
            broker = stack.enter_context(self._broker())
            broker.wait_for(str(self._port), deadline_s=START_S)
            create_topic(self._bootstrap, TOPIC, PARTITIONS)
            load = stack.enter_context(self._client("load", "--producers", str(PRODUCERS)))
            watch = stack.enter_context(self._client("watch"))
            self._await_load(load)
            for kind in plan(kills, self._chance):
                broker = self._kill(kind, broker, load, stack)
            broker = self._restart(broker, stack)
            self._await_load(load)
            load.send(signal.SIGTERM)
            load.wait_for("^done ", deadline_s=START_S)
            watch.send(signal.SIGTERM)
            assert watch.wait() == 0
            broker.send(signal.SIGTERM)
            assert broker.wait() == 0, broker.lines[-5:]
        seconds = time.monotonic() - began
        return Outcome(self._kills, self._under_load(), self._judge(), seconds)

    def _kill(self, kind: str, broker: Process, load: Process, stack: ExitStack) -> Process:
        """One death more; the broker after it, dead as well or serving."""
        if kind not in UNDER_LOAD:
            if broker.is_alive:
                broker.kill()  # uncounted: only so that there is something to take over
            broker.wait()
            return self._kill_in_start(kind, stack)
        nth = self._chance.randint(1, 20)
        when = self._chance.choice(("before", "after"))
        step = {
            "before put": f"create data before {nth}",
            "after put": f"create data after {nth}",
            "random moment": None,
            "checkpoint": f"create checkpoint {when} 1",
        }[kind]
        broker.wait()
        broker = stack.enter_context(self._broker(step, armed_by="signal"))
        return broker
