"""The kill -9 series: one broker on a directory, killed again and again while clients go on.

    python -m tests.scenarios.harness.series --kills 50 [--seed N] [--directory DIR]

Processes: the broker (started again after each death, on the same port), the load, the watch, and
at the end the judge, which reads the objects. Kills by name:

    before put            a segment of the load is about to be put
    after put             its put is done, nobody has been told
    random moment         from outside
    checkpoint            before or after one that falls due under load is put
    in replay             at the n-th read of a start
    in seal               before or after the seal of a predecessor's chain is put
    checkpoint at seal    before or after the one that sums up a sealed chain is put
    rows                  between two partition rows that a takeover changes
    opening               a chain's opening is put, the registry does not know yet

The first four fall under load: enough has been acknowledged since the start, enough is on its way.
"""

import argparse
import json
import random
import signal
import statistics
import sys
import tempfile
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.scenarios.harness.brokers import bootstrap_of, create_topic, free_port, start_broker
from tests.scenarios.harness.death import Death
from tests.scenarios.harness.load import REQUESTS_ON_THEIR_WAY_MAX
from tests.scenarios.harness.process import Process
from tests.scenarios.harness.values import Entry, Kind, read_journal

TOPIC = "kills"
PARTITIONS = 8
PRODUCERS = 48
ON_THEIR_WAY_MIN = 150
"""What the load must have on its way before a death under load is prepared."""
ACKED_FIRST = 1_500
DEATH_S = 60.0
RATE_WINDOW_S = 0.5
UNDER_LOAD = frozenset({"before put", "after put", "random moment", "checkpoint"})
SHARES = {
    "random moment": 4,
    "before put": 10,
    "after put": 10,
    "in replay": 10,
    "in seal": 10,
    "rows": 2,
    "checkpoint": 2,
    "checkpoint at seal": 1,
    "opening": 1,
}
"""Of 50 kills."""


@dataclass(frozen=True, slots=True)
class Killed:
    kind: str
    at_s: float
    batches_in_puts: int | None
    """What the broker itself counted in puts not answered; unknown when killed from outside."""


@dataclass(frozen=True, slots=True)
class Underway:
    """What the load had on its way as the broker died under it."""

    killed: Killed
    batches_unacknowledged: int
    batches_per_s: float


@dataclass(frozen=True, slots=True)
class Outcome:
    kills: Sequence[Killed]
    underway: Sequence[Underway]
    verdict: dict[str, Any]
    seconds: float

    @property
    def anomalies(self) -> dict[str, int]:
        found: dict[str, int] = self.verdict["anomalies"]
        return found

    def kills_by_kind(self) -> Counter[str]:
        return Counter(killed.kind for killed in self.kills)

    def report(self) -> Iterator[str]:
        verdict, found = self.verdict, Counter(self.anomalies)
        kinds = ", ".join(f"{kind} {count}" for kind, count in self.kills_by_kind().items())
        yield f"kills -9       {len(self.kills)} in {self.seconds:.0f} s: {kinds}"
        yield (
            f"records        sent {verdict['sent']}, acknowledged {verdict['acked']}, "
            f"in the objects {verdict['stored']}; watermarks seen {verdict['watermarks']}"
        )
        yield (
            f"found          lost {found['lost']}, doubled {found['doubled']}, out of order "
            f"{found['disordered']}, anomalies of any kind {sum(found.values())}"
        )
        for kind, texts in verdict["examples"].items():
            yield f"  {kind}: {'; '.join(texts)}"
        rates = [one.batches_per_s for one in self.underway]
        waiting = [one.batches_unacknowledged for one in self.underway]
        yield (
            f"under load     {len(self.underway)} kills; batches/s just before: median "
            f"{statistics.median(rates):.0f}, least {min(rates):.0f}; unacknowledged batches: "
            f"median {statistics.median(waiting):.0f}, least {min(waiting)}"
        )
        for one in self.underway:
            told = one.killed.batches_in_puts
            in_puts = "" if told is None else f", {told} of them in a put"
            yield (
                f"  {one.killed.kind:14} {one.batches_unacknowledged:4} unacknowledged{in_puts}, "
                f"{one.batches_per_s:.0f} batches/s"
            )


def plan(kills: int, chance: random.Random) -> list[str]:
    """Kinds of kills in their shares, by chance in order, but a random moment first."""
    whole = sum(SHARES.values())
    kinds = [kind for kind, share in SHARES.items() for _ in range(max(1, share * kills // whole))]
    first, *others = (kinds + ["random moment"] * kills)[:kills]
    chance.shuffle(others)
    return [first, *others]


@dataclass(slots=True)
class Series:
    directory: Path
    chance: random.Random
    kills: list[Killed] = field(default_factory=list)
    port: int = field(init=False)

    def __post_init__(self) -> None:
        self.port = free_port(self.chance)

    def run(self, kill_count: int) -> Outcome:
        began = time.monotonic()
        kinds = plan(kill_count, self.chance)
        with ExitStack() as stack:
            broker = stack.enter_context(self._start())
            create_topic(bootstrap_of(broker), TOPIC, PARTITIONS)
            load = stack.enter_context(self._client("load", "--producers", str(PRODUCERS)))
            watch = stack.enter_context(self._client("watch"))
            self._kill_from_outside(broker, load)
            for kind in kinds[1:]:
                with ExitStack() as one:
                    self._kill(kind, load, one)
            broker = stack.enter_context(self._start())
            self._await_load(load)
            load.send(signal.SIGTERM)
            load.wait_for("^done ", deadline_s=DEATH_S)
            watch.send(signal.SIGTERM)
            assert watch.wait() == 0, watch.lines[-5:]
            broker.send(signal.SIGTERM)
            assert broker.wait() == 0, broker.lines[-5:]
        seconds = time.monotonic() - began
        underway = list(measure(self.kills, list(read_journal(self._journal("load")))))
        return Outcome(self.kills, underway, self._judge(), seconds)

    @property
    def _bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def _url(self) -> str:
        return str(self.directory / "log")

    def _journal(self, name: str) -> Path:
        return self.directory / f"{name}.journal"

    def _start(self, step: str | None = None, *, armed_by: str = "start") -> Process:
        mortal = () if step is None else ("--die", step, "--armed-by", armed_by)
        report = self.directory / "death.json"
        report.unlink(missing_ok=True)
        return start_broker(
            self._url, port=self.port, launch=("--report", str(report), *mortal, "--")
        )

    def _client(self, name: str, *more: str) -> Process:
        arguments = (
            f"tests.scenarios.harness.{name}",
            *("--bootstrap", self._bootstrap, "--topic", TOPIC),
            *("--partitions", str(PARTITIONS), "--journal", str(self._journal(name))),
        )
        return Process([*arguments, *more])

    def _kill(self, kind: str, load: Process, stack: ExitStack) -> None:
        """Start the broker and see it die; the one before it is dead."""
        if kind in UNDER_LOAD:
            step = self._step_under_load(kind)
            broker = stack.enter_context(self._start(step, armed_by="signal"))
            if step is None:
                return self._kill_from_outside(broker, load)
            self._await_load(load)
            broker.send(signal.SIGUSR1)
        else:
            broker = stack.enter_context(self._start(self._step_in_start(kind)))
        code = broker.wait(deadline_s=DEATH_S)
        assert code == -signal.SIGKILL, f"{kind}: code={code} {broker.lines}"
        death = Death.load(self.directory / "death.json")
        return self.kills.append(Killed(kind, death.at_s, death.batches_unanswered))

    def _step_under_load(self, kind: str) -> str | None:
        nth, when = self.chance.randint(1, 20), self.chance.choice(("before", "after"))
        steps = {
            "before put": f"create data before {nth}",
            "after put": f"create data after {nth}",
            "checkpoint": f"create checkpoint {when} 1",
        }
        return steps.get(kind)

    def _step_in_start(self, kind: str) -> str:
        when = self.chance.choice(("before", "after"))
        # A predecessor that died in its own start leaves little to read.
        reads = 30 if self.kills[-1].kind in UNDER_LOAD else 2
        steps = {
            "in replay": f"get segment before {self.chance.randint(1, reads)}",
            "in seal": f"create seal {when} 1",
            "checkpoint at seal": f"create checkpoint {when} 1",
            "rows": f"write partition after {self.chance.randint(1, PARTITIONS - 1)}",
            "opening": "create opening after 1",
        }
        return steps[kind]

    def _kill_from_outside(self, broker: Process, load: Process) -> None:
        self._await_load(load, ACKED_FIRST + self.chance.randint(0, ACKED_FIRST))
        at_s = time.monotonic()
        broker.kill()
        broker.wait()
        self.kills.append(Killed("random moment", at_s, None))

    def _await_load(self, load: Process, acked: int = ACKED_FIRST) -> None:
        """Until `acked` more are acknowledged and the load has enough on its way again."""
        told = r"^progress acked=(\d+) on_their_way=(\d+)"
        after = len(load.lines)
        base = int(load.wait_for(told, after=after)[1])
        load.wait_for(
            told,
            where=lambda now: int(now[1]) >= base + acked and int(now[2]) >= ON_THEIR_WAY_MIN,
            after=after,
            deadline_s=DEATH_S,
        )

    def _judge(self) -> dict[str, Any]:
        arguments = (
            "tests.scenarios.harness.judge",
            *("--url", self._url, "--topic", TOPIC),
            *("--journal", str(self._journal("load"))),
            *("--watermarks", str(self._journal("watch"))),
        )
        with Process(arguments) as judge:
            verdict: dict[str, Any] = json.loads(judge.wait_for(r"^\{.*\}$", deadline_s=600)[0])
            return verdict


def measure(kills: Sequence[Killed], journal: Sequence[Entry]) -> Iterator[Underway]:
    """What was underway at each kill under load: at most five batches a producer count."""
    answered = [entry.at_s for entry in journal if entry.kind == Kind.ACKED]
    waiting: Counter[int] = Counter()
    at = 0
    for killed in kills:
        while at < len(journal) and journal[at].at_s < killed.at_s:
            entry = journal[at]
            waiting[entry.producer] += 1 if entry.kind == Kind.SENT else -1
            at += 1
        if killed.kind in UNDER_LOAD:
            count = bisect_left(answered, killed.at_s) - bisect_left(
                answered, killed.at_s - RATE_WINDOW_S
            )
            on_their_way = sum(min(n, REQUESTS_ON_THEIR_WAY_MAX) for n in waiting.values())
            yield Underway(killed, on_their_way, count / RATE_WINDOW_S)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--directory", type=Path, help="where to leave log and journals")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.directory or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        outcome = Series(directory, random.Random(options.seed)).run(options.kills)
    for line in outcome.report():
        print(line)
    return 1 if outcome.anomalies else 0


if __name__ == "__main__":
    sys.exit(main())
