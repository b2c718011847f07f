"""A consumer group of mixed clients, harmed again and again under load; what came of it.

    python -m tests.scenarios.harness.group_series --members 8 --partitions 16 --events 8
        [--kinds kill,freeze,…] [--brokers 1] [--kill-coordinators] [--rate 500] [--seed N]

    kill           kill -9 of a member
    freeze         SIGSTOP of a member for longer than its session
    leave          SIGTERM of a member
    add            one more member; one comes after each that was killed or has left, too
    coordinator    kill -9 of the broker that coordinates the group; started again at once, so that
                   it takes back what it led, or after another has taken that over

`--kill-coordinators` puts as many of the last kind among the others. What is checked is said in
`group_judge`; a record is delivered when a member has read it, and may be read again only if it was
not committed.
"""

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, ConsumerGroupState, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from broker.groups.decisions.group_partition import OFFSETS_TOPIC, partition_of
from tests.scenarios.harness.brokers import CHARS_SHOWN, START_S, create_topic
from tests.scenarios.harness.fleet import Fleet, directory_place, fleet
from tests.scenarios.harness.group_journal import Deed, of_java, read_member
from tests.scenarios.harness.group_judge import Absence, GroupVerdict, judge, owners_at_the_end
from tests.scenarios.harness.group_watch import GroupWatch
from tests.scenarios.harness.process import Process

TOPIC, GROUP = "harmed", "harmed"
CLIENTS = ("librdkafka", "kafka-python", "librdkafka", "aiokafka")
"""In turn; the first member of all is Java's."""
MEMBER_KINDS = ("kill", "add", "freeze", "leave")
SESSION_MS = 6_000
FROZEN_S = 9.0
AWAY_S = (0.0, 6.0)
"""One or the other: a lease is 3 s."""
PAUSE_MIN_S, PAUSE_MAX_S = 0.5, 4.0
STARTING_AT_ONCE = 6
READY_S = 180.0
CALM_S = 300.0
MEMBER_LINES_SHOWN, JAVA_LINES_SHOWN = 25, 4


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    verdict: GroupVerdict
    events: Counter[str]
    members: int
    partitions: int
    seconds: float
    recovered_s: Sequence[float]
    """After each death of a coordinator: until the group's offsets were answered again."""

    def report(self) -> Iterator[str]:
        verdict = self.verdict
        yield (
            f"group       {self.members} members, {self.partitions} partitions, "
            f"{verdict.generations} generations; events {dict(self.events)}; {self.seconds:.0f} s"
        )
        yield (
            f"records     delivered {verdict.delivered}, of them again {verdict.delivered_again}; "
            f"commits accepted {verdict.commits_accepted}, refused {verdict.commits_refused}"
        )
        yield (
            f"ownership   longest with a partition of no member {verdict.longest_unowned_s:.1f} s; "
            f"all owned {verdict.owned_again_s:.1f} s after the last event"
        )
        if self.recovered_s:
            yield f"coordinator away for at most {max(self.recovered_s):.1f} s"
        yield f"anomalies   {dict(verdict.anomalies) or 'none'}"
        for kind, texts in verdict.examples.items():
            yield f"  {kind}: {'; '.join(texts)}"


@dataclass(slots=True)
class GroupSeries:
    directory: Path
    rng: random.Random
    members: int = 8
    partitions: int = 16
    brokers: int = 1
    rate: float = 500.0
    with_java: bool = True
    pause_s: float = PAUSE_MAX_S
    """The longest between two events."""
    processes: dict[str, Process] = field(default_factory=dict)
    alive: list[str] = field(default_factory=list)
    absences: list[Absence] = field(default_factory=list)
    deaths_s: list[float] = field(default_factory=list)

    def run(self, kinds: Sequence[str]) -> GroupOutcome:
        began_s = time.monotonic()
        with ExitStack() as stack:
            brokers = stack.enter_context(
                fleet(directory_place(self.directory), self.brokers, self.rng, swallowed=False)
            )
            create_topic(brokers.bootstrap, TOPIC, self.partitions)
            self._add(stack, brokers, self.members)
            number = partition_of(GROUP, len(brokers.leaders(OFFSETS_TOPIC)))
            watch = GroupWatch(brokers.bootstrap, GROUP, TOPIC, self.partitions, number)
            stack.enter_context(watch)
            load = stack.enter_context(self._load(brokers))
            self._await_commits(watch)
            for kind in kinds:
                self._harm(kind, stack, brokers, number)
                time.sleep(self.rng.uniform(PAUSE_MIN_S, self.pause_s))
            calm_s = time.monotonic()
            load.send(signal.SIGTERM)
            load.wait_for(r"^done .* failed=0$", deadline_s=CALM_S)
            ends = self._ends(brokers)
            self._await_end(watch, ends)
            deeds, unrest = self._await_rest(brokers)
            for name in self.alive:
                self.processes[name].send(signal.SIGTERM)
            for name in self.alive:
                self.processes[name].wait(deadline_s=START_S)
            watch.__exit__(None, None, None)
            brokers.stop_all()
            self._keep_lines(brokers)
        verdict = judge(deeds, watch.fetched, watch.records, ends, self.absences, calm_s)
        if unrest:
            verdict.found("restless", unrest)
        recovered = [
            next(one.answered_s for one in watch.fetched if one.asked_s > at_s) - at_s
            for at_s in self.deaths_s
        ]
        seconds = time.monotonic() - began_s
        return GroupOutcome(
            verdict, Counter(kinds), self.members, self.partitions, seconds, recovered
        )

    # Members

    def _add(self, stack: ExitStack, brokers: Fleet, count: int) -> None:
        """So many more, not too many of them starting at a time."""
        for first in range(0, count, STARTING_AT_ONCE):
            names = []
            for _ in range(first, min(first + STARTING_AT_ONCE, count)):
                at = len(self.processes)
                is_java = self.with_java and at == 0
                client = "java" if is_java else CLIENTS[at % len(CLIENTS)]
                names.append(f"{at}-{client}")
                arguments = (
                    *("tests.scenarios.harness.group_member", "--client", client),
                    *("--bootstrap", brokers.bootstrap, "--topic", TOPIC, "--group", GROUP),
                    *("--session-ms", str(SESSION_MS)),
                    *("--journal", str(self._journal(names[-1]))),
                )
                self.processes[names[-1]] = stack.enter_context(Process(arguments))
            for name in names:
                self.processes[name].wait_for("^ready$|startup_complete", deadline_s=READY_S)
            self.alive += names

    def _journal(self, name: str) -> Path:
        return self.directory / f"{name}.journal"

    def _deeds(self) -> list[Deed]:
        deeds: list[Deed] = []
        for name, process in self.processes.items():
            deeds += read_member(name, self._journal(name))
            deeds += of_java(name, process.lines)
        return deeds

    def _keep_lines(self, brokers: Fleet) -> None:
        """What brokers and members said, to look into an anomaly."""
        last = [brokers.process(number) for number in brokers.members]
        lines = [line for one in (*brokers.ended, *last) for line in (*one.lines, "")]
        (self.directory / "brokers.log").write_text("\n".join(lines))
        for name, process in self.processes.items():
            (self.directory / f"{name}.log").write_text("\n".join(process.lines))

    # Harm

    def _harm(self, kind: str, stack: ExitStack, brokers: Fleet, number: int) -> None:
        at_s = time.monotonic()
        match kind:
            case "add":
                self._add(stack, brokers, 1)
            case "kill":
                name = self._take_one()
                self.processes[name].kill()
                self.processes[name].wait()
                self.absences.append(Absence(name, time.monotonic()))
                self._add(stack, brokers, 1)
            case "leave":
                name = self._take_one()
                self.processes[name].send(signal.SIGTERM)
                self.processes[name].wait(deadline_s=START_S)
                self.absences.append(Absence(name, time.monotonic()))
                self._add(stack, brokers, 1)
            case "freeze":
                name = self.rng.choice(self.alive)
                self.processes[name].send(signal.SIGSTOP)
                time.sleep(FROZEN_S)
                self.processes[name].send(signal.SIGCONT)
                self.absences.append(Absence(name, at_s, time.monotonic()))
            case "coordinator":
                broker = self._coordinator(brokers, number)
                self.deaths_s.append(time.monotonic())
                brokers.process(broker).kill()
                brokers.process(broker).wait()
                time.sleep(self.rng.choice(AWAY_S))
                brokers.start(broker)
            case _:
                raise AssertionError(kind)

    def _coordinator(self, brokers: Fleet, number: int) -> int:
        """The broker that leads the group's partition, as soon as one does."""
        deadline_s = time.monotonic() + START_S
        while (broker := brokers.leaders(OFFSETS_TOPIC)[number]) not in brokers.members:
            assert time.monotonic() < deadline_s, "no broker coordinates the group"
            time.sleep(0.2)
        return broker

    def _take_one(self) -> str:
        return self.alive.pop(self.rng.randrange(len(self.alive)))

    # The load and its end

    def _load(self, brokers: Fleet) -> Process:
        return Process(
            [
                "tests.scenarios.harness.steady",
                *("--bootstrap", brokers.bootstrap, "--topic", TOPIC),
                *("--partitions", str(self.partitions), "--rate", str(self.rate)),
                *("--bytes", "100", "--journal", str(self.directory / "load.journal")),
            ]
        )

    def _await_commits(self, watch: GroupWatch) -> None:
        """Until offsets of all partitions were committed."""
        deadline_s = time.monotonic() + CALM_S
        while not watch.fetched or len(watch.fetched[-1].offsets) < self.partitions:
            assert time.monotonic() < deadline_s, f"commits: {watch.fetched[-1:]}"
            time.sleep(0.2)

    def _ends(self, brokers: Fleet) -> dict[int, int]:
        consumer = Consumer({"bootstrap.servers": brokers.bootstrap, "group.id": "ends"})
        ends: dict[int, int] = {}
        deadline_s = time.monotonic() + START_S
        while len(ends) < self.partitions:
            place = TopicPartition(TOPIC, len(ends))
            try:
                _, ends[len(ends)] = consumer.get_watermark_offsets(place, timeout=START_S)
            except KafkaException:
                assert time.monotonic() < deadline_s, f"ends: {ends}"
        consumer.close()
        return ends

    def _await_end(self, watch: GroupWatch, ends: dict[int, int]) -> None:
        """Until all is committed. Raises `AssertionError` with what members did last."""
        deadline_s = time.monotonic() + CALM_S
        while not watch.fetched or watch.fetched[-1].offsets != ends:
            if time.monotonic() > deadline_s:
                committed = watch.fetched[-1].offsets if watch.fetched else {}
                late = {at: (committed.get(at), end) for at, end in ends.items()}
                late = {at: one for at, one in late.items() if one[0] != one[1]}
                members = "\n".join(self._last_of_members())
                raise AssertionError(f"committed and end by partition: {late}\n{members}")
            self._require_members()
            time.sleep(0.2)

    def _last_of_members(self) -> Iterator[str]:
        """What each member noted last, and where its threads are."""
        for name in self.alive:
            process = self.processes[name]
            if "java" not in name:
                after = len(process.lines)
                process.send(signal.SIGUSR1)
                process.wait_for(r"group_member\.py.* in main", after=after)
            last = [deed for deed in self._deeds() if deed.member == name][-2:]
            shown = JAVA_LINES_SHOWN if "java" in name else MEMBER_LINES_SHOWN
            lines = [line[:CHARS_SHOWN] for line in process.lines[-shown:]]
            yield "\n  ".join([f"{name}: {last}", *lines])

    def _require_members(self) -> None:
        """A member that ended by itself would look like a partition without an owner."""
        for name in self.alive:
            self.processes[name].require_alive()

    def _await_rest(self, brokers: Fleet) -> tuple[list[Deed], str]:
        """What members did until their group came to rest, and why it did not: empty if it did.

        At rest: the coordinator calls the group stable, with all members that live, and those say
        that each partition has one owner. A member that came last joins seconds after it said that
        it is ready, and the others give up what they own before they join again.
        """
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap, "log_level": 0})
        deadline_s = time.monotonic() + CALM_S
        while True:
            unrest = _unrest(admin, len(self.alive))
            deeds = self._deeds()
            owners = owners_at_the_end(deeds, self.absences, range(self.partitions))
            odd = {at: sorted(names) for at, names in owners.items() if len(names) != 1}
            if not unrest and odd:
                unrest = f"owners of partitions: {odd}"
            if not unrest or time.monotonic() > deadline_s:
                return deeds, unrest
            self._require_members()
            time.sleep(0.2)


def _unrest(admin: AdminClient, members: int) -> str:
    """Why the coordinator does not call the group stable with so many members."""
    try:
        reported = admin.describe_consumer_groups([GROUP])[GROUP].result(START_S)
    except KafkaException as error:
        return f"the group is not described: {error}"
    if reported.state == ConsumerGroupState.STABLE and len(reported.members) == members:
        return ""
    return f"the group is {reported.state.name} with members={len(reported.members)} of {members}"


def plan(count: int, rng: random.Random, *, kill_coordinators: bool) -> list[str]:
    """`count` events upon members, every kind as often; and as many deaths of coordinators."""
    kinds = [MEMBER_KINDS[number % len(MEMBER_KINDS)] for number in range(count)]
    kinds += ["coordinator"] * (count if kill_coordinators else 0)
    rng.shuffle(kinds)
    return kinds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=8)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--events", type=int, default=8)
    parser.add_argument("--kinds", help="these events instead, in this order: kill,freeze,…")
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--kill-coordinators", action="store_true")
    parser.add_argument("--rate", type=float, default=500.0, help="values a second")
    parser.add_argument("--pause", type=float, default=PAUSE_MAX_S, help="seconds between events")
    parser.add_argument("--without-java", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--directory", type=Path, help="where to leave log and journals")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    kinds = plan(options.events, rng, kill_coordinators=options.kill_coordinators)
    if options.kinds:
        kinds = options.kinds.split(",")
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.directory or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        series = GroupSeries(
            directory,
            rng,
            options.members,
            options.partitions,
            options.brokers,
            options.rate,
            with_java=not options.without_java,
            pause_s=options.pause,
        )
        outcome = series.run(kinds)
    for line in outcome.report():
        print(line)
    return 1 if outcome.verdict.anomalies else 0


if __name__ == "__main__":
    sys.exit(main())
