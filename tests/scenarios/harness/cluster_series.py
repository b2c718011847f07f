"""Brokers of one log harmed again and again under a steady load; what clients saw of it.

    python -m tests.scenarios.harness.cluster_series --events 20 [--kinds leader,controller,…]
        [--brokers 3] [--partitions 200] [--rate 5000] [--bucket] [--seed N] [--directory DIR]

    leader        kill -9 of a broker that leads and is not the controller; started again later
    controller    kill -9 of the controller; started again later
    freeze        SIGSTOP for longer than the lease, then SIGCONT
    swallow       the same, and all bytes from and to its clients are swallowed: a host is gone
    roll          SIGTERM of each broker in turn, each started again before the next
    no-store      all bytes between one broker and the object store are swallowed, until it was
                  fenced because its puts wait, and for a while more
    no-registry   the same between one broker and the registry, until its lease is over
    twin          SIGSTOP; a second process of the same number takes its place; SIGCONT, and the
                  first is refused; then the second is stopped and the first started again

The last three need `--bucket`, and harm the controller as well as others.

A gap is the longest time without an acknowledgement of any one partition that begins between the
event and the broker's return; then, apart, from its return until the next event, when partitions
move back to it. p50 and max are over events. The judge reads the objects at the end.

Requests that wait for a broker that hangs wait until the client gives them up: 60 s by librdkafka's
default, 30 s by Java's, whatever the cluster does. `--client-timeout-ms` sets that.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.scenarios.harness.brokers import START_S, create_topic
from tests.scenarios.harness.bucket import Bucket, Weather, bucket
from tests.scenarios.harness.fleet import Fleet, Member, Server, directory_place, fleet
from tests.scenarios.harness.process import Process
from tests.scenarios.harness.series import Place
from tests.scenarios.harness.values import Kind, read_journal
from tests.servers.child import free_port

TOPIC = "cluster"
ON_A_DIRECTORY = ("leader", "controller", "freeze", "swallow", "roll")
IN_A_BUCKET = ("no-store", "no-registry", "twin")
KINDS = (*ON_A_DIRECTORY, *IN_A_BUCKET)
CUT_OFF = {"no-store": Server.STORE, "no-registry": Server.REGISTRY}
"""Kinds for which every broker needs a way of its own to that server."""
FENCED = " ended: another broker took over its partitions"
FROZEN_S = 6.0
"""Longer than the lease of 3 s and all that follows it."""
DEAD_S = 4.0
"""Before what was killed is started again: the others are to do without it."""
STILL_CUT_OFF_S = 4.0
"""After it was fenced: its new start begins cut off."""
SETTLED_S = 2.0
"""For so long no partition has moved before the next event."""
BEFORE_S = 0.5
SETTLE_S = 300.0
"""It takes seconds; a machine may stand still for minutes."""
BALANCE_OFTEN = ("--set", "leader.imbalance.check.interval.seconds=1")
"""So that a broker that came back leads again before the next event; nothing else is changed."""


@dataclass(frozen=True, slots=True)
class Event:
    kind: str
    broker: int
    led: frozenset[int]
    """Partitions that the broker led."""
    at_s: float
    back_s: float
    """When the broker was started again, went on, or could reach all of its servers again."""


@dataclass(frozen=True, slots=True)
class Gap:
    event: Event
    affected_s: float
    """Of the partitions that the broker led."""
    others_s: float
    return_s: float
    """Of any partition, after the broker's return."""


@dataclass(frozen=True, slots=True)
class ClusterOutcome:
    gaps: Sequence[Gap]
    verdict: dict[str, Any]
    seconds: float
    lines: Sequence[str]

    @property
    def anomalies(self) -> dict[str, int]:
        found: dict[str, int] = self.verdict["anomalies"]
        return found

    def report(self) -> Iterator[str]:
        verdict = self.verdict
        for kind in KINDS:
            mine = [gap for gap in self.gaps if gap.event.kind == kind]
            if mine:
                yield (
                    f"{kind:11} {len(mine):3} events; gap of its partitions "
                    f"{_spread([gap.affected_s for gap in mine])}, of the others "
                    f"{_spread([gap.others_s for gap in mine])}, at its return "
                    f"{_spread([gap.return_s for gap in mine])}"
                )
        yield (
            f"records     sent {verdict['sent']}, acknowledged {verdict['acked']}, failed "
            f"{verdict['failed']}, in the objects {verdict['stored']}; watermarks seen "
            f"{verdict['watermarks']}; {self.seconds:.0f} s"
        )
        yield f"anomalies   {verdict['anomalies'] or 'none'}"
        for kind, texts in verdict["examples"].items():
            yield f"  {kind}: {'; '.join(texts)}"


def _spread(seconds: Sequence[float]) -> str:
    return f"p50 {statistics.median(seconds):.2f} max {max(seconds):.2f} s"


@dataclass(slots=True)
class ClusterSeries:
    directory: Path
    place: Place
    rng: random.Random
    brokers: int = 3
    partitions: int = 200
    rate: float = 5000.0
    value_bytes: int = 1000
    settled_s: float = SETTLED_S
    more: Sequence[str] = ()
    client_timeout_ms: int = 60_000
    bucket: Bucket | None = None
    """Where `place` is, for the kinds that need one."""
    events: list[Event] = field(default_factory=list)

    def run(self, kinds: Sequence[str]) -> ClusterOutcome:
        began_s = time.monotonic()
        with ExitStack() as stack:
            brokers = stack.enter_context(
                fleet(
                    self.place,
                    self.brokers,
                    self.rng,
                    swallowed="swallow" in kinds,
                    more=self.more,
                    bucket=self.bucket,
                    cut_off_from={CUT_OFF[kind] for kind in kinds if kind in CUT_OFF},
                )
            )
            create_topic(brokers.bootstrap, TOPIC, self.partitions)
            load = stack.enter_context(self._load(brokers))
            watch = stack.enter_context(self._client("watch", brokers))
            self._await_load(load)
            for kind in kinds:
                self._settle(brokers, load)
                self._harm(kind, brokers)
            self._settle(brokers, load)
            lines = self._stop_all(load, watch, brokers)
        gaps = list(measure_gaps(self.events, self._journal("load")))
        return ClusterOutcome(gaps, self._judge(), time.monotonic() - began_s, lines)

    @staticmethod
    def _stop_all(load: Process, watch: Process, brokers: Fleet) -> list[str]:
        """Let the load end, then the watch and the brokers; the lines of every broker."""
        load.send(signal.SIGTERM)
        load.wait_for("^done ", deadline_s=150)
        watch.send(signal.SIGTERM)
        assert watch.wait(deadline_s=60) == 0, watch.lines[-5:]
        brokers.stop_all()
        processes = [*brokers.ended, *map(brokers.process, brokers.members)]
        return [line for one in processes for line in one.lines]

    def _journal(self, name: str) -> Path:
        return self.directory / f"{name}.journal"

    def _load(self, brokers: Fleet) -> Process:
        return Process(
            [
                "tests.scenarios.harness.steady",
                *("--bootstrap", brokers.bootstrap, "--topic", TOPIC),
                *("--partitions", str(self.partitions), "--rate", str(self.rate)),
                *("--bytes", str(self.value_bytes), "--journal", str(self._journal("load"))),
                *("--timeout-ms", str(self.client_timeout_ms)),
            ]
        )

    def _client(self, name: str, brokers: Fleet) -> Process:
        return Process(
            [
                f"tests.scenarios.harness.{name}",
                *("--bootstrap", brokers.bootstrap, "--topic", TOPIC),
                *("--partitions", str(self.partitions), "--journal", str(self._journal(name))),
            ]
        )

    def _await_load(self, load: Process) -> None:
        """Until every partition has had some acknowledgements."""
        reported = r"^progress acked=(\d+)"
        enough = 5 * self.partitions
        load.wait_for(reported, where=lambda now: int(now[1]) >= enough, deadline_s=START_S)

    def _settle(self, brokers: Fleet, load: Process) -> None:
        """Everybody is up and leads its share, nothing moves, and the load is acknowledged."""
        deadline_s = time.monotonic() + SETTLE_S
        leaders, since_s = brokers.leaders(TOPIC), time.monotonic()
        while time.monotonic() < since_s + self.settled_s or not self._is_balanced(
            leaders, brokers
        ):
            assert time.monotonic() < deadline_s, f"leaders: {leaders}"
            time.sleep(0.2)
            now = brokers.leaders(TOPIC)
            if now != leaders:
                leaders, since_s = now, time.monotonic()
        after = len(load.lines)
        base = int(load.wait_for(r"^progress acked=(\d+)", after=after)[1])
        load.wait_for(
            r"^progress acked=(\d+)",
            where=lambda now: int(now[1]) >= base + self.partitions,
            after=after,
            deadline_s=START_S,
        )

    def _is_balanced(self, leaders: Mapping[int, int], brokers: Fleet) -> bool:
        """Whether every broker leads about as many as the others, and no other leads."""
        led, numbers = Counter(leaders.values()), brokers.members.keys()
        fair = self.partitions / len(numbers)
        return led.keys() <= numbers and min(led[number] for number in numbers) > fair / 2

    def _harm(self, kind: str, brokers: Fleet) -> None:
        controller = brokers.controller()
        others = [number for number in brokers.members if number != controller]
        number = controller if kind == "controller" else self.rng.choice(others)
        if kind in IN_A_BUCKET:
            number = self.rng.choice(list(brokers.members))
        if kind == "roll":
            number = 0
        led = brokers.leaders(TOPIC)
        mine = frozenset(p for p, leader in led.items() if number in (0, leader))
        at_s = time.monotonic()
        back_s = self._do_harm(kind, number, brokers)
        self.events.append(Event(kind, number, mine, at_s, back_s))

    def _do_harm(self, kind: str, number: int, brokers: Fleet) -> float:
        """When the broker was back."""
        match kind:
            case "leader" | "controller":
                brokers.process(number).kill()
                brokers.process(number).wait()
                time.sleep(DEAD_S)
                back_s = time.monotonic()
                brokers.start(number)
            case "freeze":
                process = brokers.process(number)
                process.send(signal.SIGSTOP)
                time.sleep(FROZEN_S)
                back_s = time.monotonic()
                process.send(signal.SIGCONT)
            case "swallow":
                proxy = brokers.members[number].proxy
                assert proxy is not None
                proxy.send(signal.SIGUSR1)
                brokers.process(number).send(signal.SIGSTOP)
                time.sleep(FROZEN_S)
                back_s = time.monotonic()
                brokers.process(number).send(signal.SIGCONT)
                proxy.send(signal.SIGUSR2)
            case "roll":
                for each in list(brokers.members):
                    process = brokers.process(each)
                    process.send(signal.SIGTERM)
                    assert process.wait(deadline_s=START_S) == 0, process.lines[-5:]
                    brokers.start(each)
                back_s = time.monotonic()
            case "no-store" | "no-registry":
                back_s = self._cut_off(brokers.members[number], CUT_OFF[kind])
            case "twin":
                back_s = self._run_twin(number, brokers)
            case _:
                raise AssertionError(kind)
        return back_s

    def _cut_off(self, member: Member, server: Server) -> float:
        process, way = member.process, member.ways[server]
        assert process is not None
        said = len(process.lines)
        way.send(signal.SIGUSR1)
        process.wait_for(FENCED, after=said, deadline_s=START_S)
        time.sleep(STILL_CUT_OFF_S)
        back_s = time.monotonic()
        way.send(signal.SIGUSR2)
        return back_s

    def _run_twin(self, number: int, brokers: Fleet) -> float:
        first = brokers.process(number)
        first.send(signal.SIGSTOP)
        port = free_port(self.rng)
        twin = brokers.start_twin(number, port, self.directory / "state-of-twins")
        deadline_s = time.monotonic() + START_S
        while number not in brokers.leaders(TOPIC).values():
            assert time.monotonic() < deadline_s, twin.lines
            time.sleep(0.2)
        first.send(signal.SIGCONT)
        assert first.wait(deadline_s=START_S) == 1, first.lines[-5:]
        assert f"alive elsewhere: address=127.0.0.1:{port}" in first.lines[-1], first.lines[-5:]
        twin.send(signal.SIGTERM)
        assert twin.wait(deadline_s=START_S) == 0, twin.lines[-5:]
        back_s = time.monotonic()
        brokers.start(number)
        return back_s

    def _judge(self) -> dict[str, Any]:
        arguments = (
            "tests.scenarios.harness.judge",
            *("--url", self.place.url, "--topic", TOPIC, *self.place.judge),
            *("--journal", str(self._journal("load"))),
            *("--watermarks", str(self._journal("watch"))),
        )
        with Process(arguments) as judge:
            verdict: dict[str, Any] = json.loads(judge.wait_for(r"^\{.*\}$", deadline_s=900)[0])
            return verdict


def measure_gaps(events: Sequence[Event], journal: Path) -> Iterator[Gap]:
    """The longest silences of any partition around each event."""
    acked: dict[int, list[float]] = {}
    for entry in read_journal(journal):
        if entry.kind == Kind.ACKED:
            acked.setdefault(entry.partition, []).append(entry.at_s)
    ends_s = [event.at_s - BEFORE_S for event in events[1:]] + [float("inf")]
    for event, end_s in zip(events, ends_s, strict=True):
        longest = {True: 0.0, False: 0.0}
        at_return = 0.0
        begin_s = event.at_s - BEFORE_S
        for partition, times in acked.items():
            is_led = partition in event.led
            # From the last one before: what is silent already stays so into the event.
            first = max(bisect_left(times, begin_s) - 1, 0)
            for before_s, after_s in pairwise(times[first : bisect_left(times, end_s)]):
                silence_s = after_s - before_s
                if before_s < event.back_s:
                    longest[is_led] = max(longest[is_led], silence_s)
                else:
                    at_return = max(at_return, silence_s)
        yield Gap(event, longest[True], longest[False], at_return)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=20, help="of each kind")
    parser.add_argument("--kinds", help=f"of {','.join(KINDS)} (default: all that can be)")
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=200)
    parser.add_argument("--rate", type=float, default=5000.0, help="values of 1,000 bytes a second")
    parser.add_argument(
        "--client-timeout-ms", type=int, default=60_000, help="how long a client waits for a broker"
    )
    parser.add_argument("--bucket", action="store_true", help="versitygw and DynamoDB Local")
    parser.add_argument("--bad-weather", action="store_true", help="faults on the way to them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--directory", type=Path, help="where to leave log and journals")
    options = parser.parse_args()
    is_bucket = options.bucket or options.bad_weather
    wanted = KINDS if is_bucket else ON_A_DIRECTORY
    if options.kinds is not None:
        wanted = tuple(options.kinds.split(","))
    for kind in wanted:
        if kind not in KINDS:
            parser.error(f"no such kind: {kind}; choose of {','.join(KINDS)}")
        if kind in IN_A_BUCKET and not is_bucket:
            parser.error(f"{kind} needs --bucket: a directory has no servers and one lock")
    rng = random.Random(options.seed)
    kinds = [kind for kind in wanted for _ in range(options.events)]
    rng.shuffle(kinds)
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        directory = options.directory or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        place, its_bucket = directory_place(directory), None
        if is_bucket:
            weather = Weather(objects=(), rows=(), latency=0.0)
            if options.bad_weather:
                weather = Weather(seed=options.seed)
            its_bucket = stack.enter_context(bucket(directory, weather))
            place = its_bucket.place
        series = ClusterSeries(
            directory,
            place,
            rng,
            options.brokers,
            options.partitions,
            options.rate,
            more=BALANCE_OFTEN,
            client_timeout_ms=options.client_timeout_ms,
            bucket=its_bucket,
        )
        outcome = series.run(kinds)
    for line in outcome.report():
        print(line)
    return 1 if outcome.anomalies else 0


if __name__ == "__main__":
    sys.exit(main())
