"""The kill -9 series: one broker, killed again and again while clients go on.

    python -m tests.scenarios.harness.series --kills 50 [--seed N] [--directory DIR]

Processes: the broker (started again after each death, on the same port), the load, the watch, and
at the end the judge, which reads the objects. Kills by name:

    before put            a segment of the load is about to be put
    after put             its put is done, no client has an answer
    random moment         from outside
    checkpoint            before or after one that falls due under load is put
    in replay             at the n-th read of a start
    in seal               before or after the seal of a predecessor's chain is put
    checkpoint at seal    before or after the one that sums up a sealed chain is put
    rows                  between two partition rows that a takeover changes
    opening               a chain's opening is put, the registry does not know yet

The first four fall under load: enough has been acknowledged since the start, enough is on its way.
The log is in a directory here, and in a bucket behind faults in `bucket_series`.
"""

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.scenarios.harness.brokers import (
    bootstrap_of,
    create_topic,
    last_words,
    start_broker,
)
from tests.scenarios.harness.death import Death
from tests.scenarios.harness.outcome import UNDER_LOAD, Killed, Outcome, measure
from tests.scenarios.harness.process import Process, ProcessFailed
from tests.scenarios.harness.values import read_journal
from tests.servers.child import free_port

TOPIC = "kills"
PARTITIONS = 8
DEATH_S = 300.0
STEP_S = 1.0
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
class Place:
    """Where the log is, and what brokers and the judge need to get there."""

    url: str
    broker: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    judge: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Pace:
    """How much load, and how often a death falls under it.

    Before such a death is prepared, `acked_first` batches have been acknowledged since the start,
    `on_their_way_min` are on their way again, and `life_s` have passed since the one before.
    """

    producers: int = 48
    on_their_way_min: int = 150
    acked_first: int = 1_500
    life_s: float = 0.0
    replay_reads_max: int = 30
    """Reads of segments that a start is sure to do after a death under load."""


def plan(kills: int, rng: random.Random) -> list[str]:
    """Kinds of kills in their shares, by chance in order, but a random moment first."""
    whole = sum(SHARES.values())
    kinds = [kind for kind, share in SHARES.items() for _ in range(max(1, share * kills // whole))]
    first, *others = (kinds + ["random moment"] * kills)[:kills]
    rng.shuffle(others)
    return [first, *others]


@dataclass(slots=True)
class Series:
    directory: Path
    rng: random.Random
    place: Place | None = None
    """None: the directory's own `log`."""
    pace: Pace = field(default_factory=Pace)
    kills: list[Killed] = field(default_factory=list)
    lives: int = 0
    port: int = field(init=False)
    _began_s: float = 0.0

    def __post_init__(self) -> None:
        self.port = free_port(self.rng)

    def run(self, kill_count: int) -> Outcome:
        return self.follow(plan(kill_count, self.rng))

    def follow(self, kinds: Sequence[str]) -> Outcome:
        """The first of `kinds` must be a random moment."""
        self._began_s = time.monotonic()
        with ExitStack() as stack:
            broker = stack.enter_context(self._start())
            create_topic(bootstrap_of(broker), TOPIC, PARTITIONS)
            load = stack.enter_context(
                self._client("load", "--producers", str(self.pace.producers))
            )
            watch = stack.enter_context(self._client("watch"))
            self._kill_from_outside(broker, load)
            for kind in kinds[1:]:
                with ExitStack() as one:
                    self._kill(kind, load, one)
            broker = stack.enter_context(self._start())
            self._await_load(load, broker)
            self._let_live(broker)
            load.send(signal.SIGTERM)
            load.wait_for("^done ", deadline_s=DEATH_S)
            watch.send(signal.SIGTERM)
            assert watch.wait() == 0, watch.lines[-5:]
            broker.send(signal.SIGTERM)
            assert broker.wait() == 0, broker.lines[-5:]
        seconds = time.monotonic() - self._began_s
        underway = list(measure(self.kills, list(read_journal(self._journal("load")))))
        return Outcome(self.kills, underway, self._judge(), seconds)

    @property
    def _bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def _place(self) -> Place:
        return self.place or Place(str(self.directory / "log"))

    def _journal(self, name: str) -> Path:
        return self.directory / f"{name}.journal"

    def _start(self, step: str | None = None, *, armed_by: str = "start") -> Process:
        mortal = () if step is None else ("--die", step, "--armed-by", armed_by)
        report = self.directory / "death.json"
        report.unlink(missing_ok=True)
        self.lives += 1
        counts = self.directory / f"counts-{self.lives}.json"
        return start_broker(
            self._place.url,
            port=self.port,
            launch=("--report", str(report), "--counts", str(counts), *mortal, "--"),
            more=self._place.broker,
            environment=self._place.environment,
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
            self._await_load(load, broker)
            self._let_live(broker)
            broker.send(signal.SIGUSR1)
        else:
            broker = stack.enter_context(self._start(self._step_in_start(kind)))
        code = broker.wait(deadline_s=DEATH_S)
        assert code == -signal.SIGKILL, f"{kind}: code={code} {broker.lines}"
        death = Death.load(self.directory / "death.json")
        return self.kills.append(Killed(kind, death.at_s, death.batches_unanswered))

    def _step_under_load(self, kind: str) -> str | None:
        nth, when = self.rng.randint(1, 20), self.rng.choice(("before", "after"))
        steps = {
            "before put": f"create data before {nth}",
            "after put": f"create data after {nth}",
            "checkpoint": f"create checkpoint {when} 1",
        }
        return steps.get(kind)

    def _step_in_start(self, kind: str) -> str:
        when = self.rng.choice(("before", "after"))
        # A predecessor that died in its own start leaves little to read.
        reads = self.pace.replay_reads_max if self.kills[-1].kind in UNDER_LOAD else 2
        steps = {
            "in replay": f"get segment before {self.rng.randint(1, reads)}",
            "in seal": f"create seal {when} 1",
            "checkpoint at seal": f"create checkpoint {when} 1",
            "rows": f"write partition after {self.rng.randint(1, PARTITIONS - 1)}",
            "opening": "create opening after 1",
        }
        return steps[kind]

    def _kill_from_outside(self, broker: Process, load: Process) -> None:
        first = self.pace.acked_first
        self._await_load(load, broker, first + self.rng.randint(0, first))
        self._let_live(broker)
        at_s = time.monotonic()
        broker.kill()
        broker.wait()
        self.kills.append(Killed("random moment", at_s, None))

    def _await_load(self, load: Process, broker: Process, acked: int | None = None) -> None:
        """Until `acked` more are acknowledged and the load has enough on its way again."""
        acked = self.pace.acked_first if acked is None else acked
        on_their_way_min = self.pace.on_their_way_min
        reported = r"^progress acked=(\d+) on_their_way=(\d+)"
        after = len(load.lines)
        base = int(load.wait_for(reported, after=after)[1])
        try:
            load.wait_for(
                reported,
                where=lambda now: int(now[1]) >= base + acked and int(now[2]) >= on_their_way_min,
                after=after,
                deadline_s=DEATH_S,
            )
        except ProcessFailed as error:
            raise ProcessFailed(f"the broker {last_words(broker)}\n{error}") from None

    def _let_live(self, broker: Process) -> None:
        """Until a life's length has passed since the last death under load."""
        died_at_s = [killed.at_s for killed in self.kills if killed.kind in UNDER_LOAD]
        until_s = (died_at_s[-1] if died_at_s else self._began_s) + self.pace.life_s
        while (left_s := until_s - time.monotonic()) > 0:
            assert broker.is_alive, broker.lines[-5:]
            time.sleep(min(left_s, STEP_S))

    def _judge(self) -> dict[str, Any]:
        arguments = (
            "tests.scenarios.harness.judge",
            *("--url", self._place.url, "--topic", TOPIC, *self._place.judge),
            *("--journal", str(self._journal("load"))),
            *("--watermarks", str(self._journal("watch"))),
        )
        with Process(arguments) as judge:
            verdict: dict[str, Any] = json.loads(judge.wait_for(r"^\{.*\}$", deadline_s=600)[0])
            return verdict


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
