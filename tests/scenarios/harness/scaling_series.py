"""Equal processes of one log, scaled out and in under a steady load; what clients saw of it.

    python -m tests.scenarios.harness.scaling_series [--steps out,in,out,kill] [--brokers 3]
        [--partitions 24] [--replicas 3] [--rate 2000] [--bytes 1000] [--seed N] [--directory DIR]

    out     as many processes more start at once, with `--broker auto` and a state directory each,
            as in a container; until leaders are even again
    in      as many get SIGTERM at once, as by a platform that was asked for fewer: the controller
            and others at random, so that they hand over while those beside them do
    kill    the same by SIGKILL: machines that are taken away

Producers write steadily and a member of a group reads and commits. A silence is the longest time
without an acknowledgement, or without a record read, of any one partition, from the beginning of a
step to the beginning of the next. An error is a record that a producer gave up, an error that the
consumer was given, or a commit of offsets that was refused. The judge reads the objects at the end.
"""

import argparse
import random
import signal
import sys
import tempfile
import time
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.scenarios.harness.brokers import START_S, create_topic
from tests.scenarios.harness.cluster_series import BALANCE_OFTEN, TOPIC, ClusterSeries
from tests.scenarios.harness.equal_fleet import EqualFleet, equal_fleet
from tests.scenarios.harness.fleet import Fleet, directory_place
from tests.scenarios.harness.group_journal import read_member
from tests.scenarios.harness.process import Process, poll_until
from tests.scenarios.harness.values import Kind, read_journal

STEPS = ("out", "in", "kill")
GROUP = "readers"
SESSION_MS = 6000
READ_S = 60.0
ERRORS = ("poll: ", "commit: ")
"""What a member of the group says of errors that its client gave it."""
GONE_S = 10.0
GONE_SOON = ("--set", f"logstore.broker.gone.ms={GONE_S * 1000:.0f}")
"""So that replica lists are seen to forget those that left; ten minutes otherwise."""


@dataclass(frozen=True, slots=True)
class ScalingStep:
    kind: str
    numbers: Sequence[int]
    """Of the brokers that came or went."""
    began_s: float
    done_s: float
    """When the last of them served, or had ended."""
    even_s: float
    """When every broker led its share."""


@dataclass(frozen=True, slots=True)
class ScalingOutcome:
    steps: Sequence[ScalingStep]
    written: Sequence[float]
    """By step, the longest silence of acknowledgements of any partition, in seconds."""
    consumed: Sequence[float]
    """By step, the longest silence of records read."""
    unread: int
    """Records that the group did not read."""
    read_again: int
    errors: Sequence[str]
    """What the consumer was given, and its commits that were refused."""
    replicas: frozenset[int]
    """Brokers that replica lists name at the end."""
    verdict: dict[str, Any]
    seconds: float
    lines: Sequence[str]

    def report(self) -> Iterator[str]:
        for step, written_s, consumed_s in zip(
            self.steps, self.written, self.consumed, strict=True
        ):
            yield (
                f"{step.kind:5} brokers {', '.join(map(str, step.numbers))}: done in "
                f"{step.done_s - step.began_s:.1f} s, leaders even after "
                f"{step.even_s - step.began_s:.1f} s; longest silence of a partition written "
                f"{written_s:.2f} s, read {consumed_s:.2f} s"
            )
        yield f"replicas are on brokers {', '.join(map(str, sorted(self.replicas)))}"
        yield (
            f"records        sent {self.verdict['sent']}, acknowledged {self.verdict['acked']}, "
            f"failed {self.verdict['failed']}, in the objects {self.verdict['stored']}, not read "
            f"{self.unread}, read again {self.read_again}; {self.seconds:.0f} s"
        )
        yield f"errors         {'; '.join(self.errors) or 'none'}"
        yield f"anomalies      {self.verdict['anomalies'] or 'none'}"
        for kind, texts in self.verdict["examples"].items():
            yield f"  {kind}: {'; '.join(texts)}"


def _say(text: str) -> None:
    """At once: a series that is ended from outside has said how far it came."""
    print(f"scaling: {text}", file=sys.stderr, flush=True)


@dataclass(slots=True)
class ScalingSeries(ClusterSeries):
    replicas: int = 3
    steps: list[ScalingStep] = field(default_factory=list)

    def run_scaling(self, kinds: Sequence[str]) -> ScalingOutcome:
        began_s = time.monotonic()
        with ExitStack() as stack:
            brokers = stack.enter_context(
                equal_fleet(self.place, self.brokers, self.rng, self.directory, more=self.more)
            )
            create_topic(brokers.bootstrap, TOPIC, self.partitions, replicas=self.replicas)
            load = stack.enter_context(self._load(brokers))
            watch = stack.enter_context(self._client("watch", brokers))
            reader = stack.enter_context(self._reader(brokers))
            self._await_load(load)
            for kind in kinds:
                self._settle(brokers, load)
                self._scale(kind, brokers, load)
            poll_until(lambda: _replicas(brokers) <= brokers.members.keys())
            replicas = _replicas(brokers)
            load.send(signal.SIGTERM)
            load.wait_for("^done ", deadline_s=150)
            self._await_read(reader)
            lines = self._stop_all(load, watch, brokers)
        verdict, ends_s = self._judge(), [step.began_s for step in self.steps[1:]]
        acked, read = self._acked(), self._read_times()
        spans = list(zip(self.steps, [*ends_s, time.monotonic()], strict=True))
        unread, read_again = self._compare_read(verdict)
        return ScalingOutcome(
            steps=self.steps,
            written=[longest_silence_s(acked, step.began_s, end_s) for step, end_s in spans],
            consumed=[longest_silence_s(read, step.began_s, end_s) for step, end_s in spans],
            unread=unread,
            read_again=read_again,
            errors=[line for line in reader.said if line.startswith(ERRORS)],
            replicas=replicas,
            verdict=verdict,
            seconds=time.monotonic() - began_s,
            lines=lines,
        )

    def _scale(self, kind: str, brokers: EqualFleet, load: Process) -> None:
        began_s = time.monotonic()
        _say(f"{kind} begins")
        if kind == "out":
            numbers = brokers.start_more(self.brokers)
        else:
            numbers = self._choose(brokers)
            brokers.end(numbers, signal.SIGTERM if kind == "in" else signal.SIGKILL)
        done_s = time.monotonic()
        self._settle(brokers, load)
        even_s = time.monotonic() - self.settled_s
        self.steps.append(ScalingStep(kind, numbers, began_s, done_s, even_s))
        _say(f"{kind} done: brokers {', '.join(map(str, numbers))}, {even_s - began_s:.1f} s")

    def _choose(self, brokers: Fleet) -> list[int]:
        controller = brokers.controller()
        others = [number for number in brokers.members if number != controller]
        count = len(brokers.members) - self.brokers
        return sorted([controller, *self.rng.sample(others, count - 1)])

    def _reader(self, brokers: Fleet) -> Process:
        return Process(
            [
                "tests.scenarios.harness.group_member",
                *("--client", "librdkafka", "--bootstrap", brokers.bootstrap),
                *("--topic", TOPIC, "--group", GROUP, "--session-ms", str(SESSION_MS)),
                *("--journal", str(self._journal("reader"))),
            ]
        )

    def _await_read(self, reader: Process) -> None:
        """Until the group has read all that was acknowledged."""
        acked = {
            (entry.partition, entry.offset)
            for entry in read_journal(self._journal("load"))
            if entry.kind == Kind.ACKED
        }
        poll_until(lambda: acked <= self._offsets_read().keys(), reader, deadline_s=READ_S)
        reader.send(signal.SIGTERM)
        assert reader.wait(deadline_s=START_S) == 0, reader.lines[-5:]

    def _offsets_read(self) -> Mapping[tuple[int, int], int]:
        """How often each partition's offset was read."""
        times: defaultdict[tuple[int, int], int] = defaultdict(int)
        for deed in read_member("reader", self._journal("reader")):
            if deed.did == "read":
                for partition, first, last in deed.parts:
                    for offset in range(first, last + 1):
                        times[partition, offset] += 1
        return times

    def _compare_read(self, verdict: Mapping[str, Any]) -> tuple[int, int]:
        times = self._offsets_read()
        return verdict["stored"] - len(times), sum(times.values()) - len(times)

    def _acked(self) -> Mapping[int, Sequence[float]]:
        times: defaultdict[int, list[float]] = defaultdict(list)
        for entry in read_journal(self._journal("load")):
            if entry.kind == Kind.ACKED:
                times[entry.partition].append(entry.at_s)
        return times

    def _read_times(self) -> Mapping[int, Sequence[float]]:
        times: defaultdict[int, list[float]] = defaultdict(list)
        for deed in read_member("reader", self._journal("reader")):
            if deed.did == "read":
                for partition in {partition for partition, _, _ in deed.parts}:
                    times[partition].append(deed.at_s)
        return times


def longest_silence_s(times: Mapping[int, Sequence[float]], from_s: float, to_s: float) -> float:
    """Between two neighbours of one partition of which the earlier or the later is in the span."""
    longest = 0.0
    for mine in times.values():
        first, end = bisect_left(mine, from_s), bisect_right(mine, to_s)
        around = mine[max(first - 1, 0) : end]
        longest = max([longest, *(late - early for early, late in pairwise(around))])
    return longest


def _replicas(brokers: Fleet) -> frozenset[int]:
    shown = brokers.admin().list_topics(TOPIC, timeout=START_S).topics[TOPIC]
    return frozenset(broker for one in shown.partitions.values() for broker in one.replicas)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", default="out,in,out,kill", help=f"of {','.join(STEPS)}")
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=24)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--rate", type=float, default=2000.0, help="values a second")
    parser.add_argument("--bytes", type=int, default=1000, help="of a value")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--directory", type=Path, help="where to leave log and journals")
    options = parser.parse_args()
    kinds = options.steps.split(",")
    for kind in kinds:
        if kind not in STEPS:
            parser.error(f"no such step: {kind}; choose of {','.join(STEPS)}")
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.directory or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        outcome = ScalingSeries(
            directory,
            directory_place(directory),
            random.Random(options.seed),
            options.brokers,
            options.partitions,
            options.rate,
            options.bytes,
            more=(*BALANCE_OFTEN, *GONE_SOON),
            replicas=options.replicas,
        ).run_scaling(kinds)
    for line in outcome.report():
        print(line)
    return 1 if outcome.verdict["anomalies"] or outcome.verdict["failed"] or outcome.errors else 0


if __name__ == "__main__":
    sys.exit(main())
