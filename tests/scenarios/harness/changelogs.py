"""Programs that rebuild their state from compacted topics, killed while these are compacted.

    python -m tests.scenarios.harness.changelogs --minutes 60 --seed 0 [--every 60] [--rate 100]
        [--directory DIR]

Three brokers on a directory; a producer writes keyed records and tombstones to `facts` and to
`_schemas`. Kafka Streams keeps a table of `facts` in a store with a changelog, a reader follows
`_schemas` as a schema registry does, a worker of Kafka Connect has its three topics. Beside them a
process compacts all topics again and again, merges files of their tables as an owner would
(OPTIMIZE), and trims segments with a grace of seconds. Every `--every` seconds one process is
killed by kill -9, of a kind drawn from the seed:

    table, schemas, connect    a program: it starts again with nothing on its disk
    broker                     one that leads a partition of the changelog
    compaction                 the process beside them

After each kill of a program the producer waits until the program holds the last value of each key
that was acknowledged; compaction goes on. At the end brokers stop, everything is compacted and all
segments that tables hold are deleted; then each program starts once more, from tables alone, and
`logstore fsck --data` must find nothing.
"""

import argparse
import json
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.peers.moved import move_rest
from logstore.formats.keys import CHAINS
from logstore.testing.interruptible import heed_signals
from tests.clients.rebuilt_state import RebuiltState
from tests.scenarios.harness.brokers import create_topic
from tests.scenarios.harness.changelog_users import (
    CONNECT_TOPICS,
    FACTS,
    SCHEMAS,
    STORE,
    ConnectWorker,
    NotRebuilt,
    StateReader,
)
from tests.scenarios.harness.fleet import Fleet, directory_place, fleet
from tests.scenarios.harness.maintenance import KeptLog
from tests.scenarios.harness.maintenance_loop import Kept, MaintenanceLoop

BROKERS, PARTITIONS, KEYS, TOMBSTONES = 3, 2, 400, 0.15
BROKER, COMPACTION, CONNECT = "broker", "compaction", "connect"
KINDS = ("table", "table", "schemas", "connect", "broker", "broker", "compaction")
COMPACTED = {"cleanup.policy": "compact"}
SETTINGS = (
    *("--set", "group.initial.rebalance.delay.ms=200"),
    *("--set", "log.cleaner.delete.retention.ms=30000"),
    *("--set", "offsets.topic.num.partitions=1"),
)
"""Each program reads its topics within half a minute, so it may not miss a deletion. Groups have
one partition, so that their records hold the segments of one broker alone."""
WAVE_S, FLUSH_S, DEATH_S = 0.1, 120.0, 60.0


def kinds_of(rng: random.Random) -> Iterator[str]:
    """Without end; each kind as often as the next, in an order of chance."""
    while True:
        yield from rng.sample(KINDS, len(KINDS))


class StateWriter:
    """Writes `rate` records a second to each topic, in a thread; `states`: what they amount to."""

    def __init__(self, bootstrap: str, rate: float, seed: int) -> None:
        self.states = {FACTS: RebuiltState(), SCHEMAS: RebuiltState()}
        self.failed: list[str] = []
        self._rate = rate
        self._rng = random.Random(seed)
        self._turn = threading.Lock()
        self._over = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, name="writer")

    def __enter__(self) -> "StateWriter":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @contextmanager
    def held(self) -> Iterator[None]:
        """All is acknowledged, and nothing more is written."""
        with self._turn:
            if self._producer.flush(FLUSH_S):
                self.failed.append(f"not acknowledged in {FLUSH_S:.0f} s")
            yield

    def _run(self) -> None:
        while not self._over.wait(WAVE_S):
            with self._turn:
                for topic, state in self.states.items():
                    for _ in range(round(self._rate * WAVE_S)):
                        self._write(topic, state)
                self._producer.poll(0)

    def _write(self, topic: str, state: RebuiltState) -> None:
        key = b"key-%d" % self._rng.randrange(KEYS)
        is_deletion = self._rng.random() < TOMBSTONES
        value = None if is_deletion else b"%d" % self._rng.getrandbits(256)
        self._producer.produce(topic, value, key, on_delivery=self._noted)
        state.apply(key, value)

    def _noted(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))


@dataclass(slots=True)
class ChangelogOutcome:
    """`rebuilt`: how often each program was found to hold all; `tables`: rows and clean ends."""

    seconds: float = 0.0
    written: int = 0
    failed: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    rebuilt: Counter[str] = field(default_factory=Counter)
    longest_s: dict[str, float] = field(default_factory=dict)
    """By program, from a start until it held all: rebalances may hide a time-out of minutes."""
    wrong: list[str] = field(default_factory=list)
    restored: dict[str, list[int]] = field(default_factory=dict)
    kept: Kept = field(default_factory=Kept)
    tables: dict[str, tuple[int, int]] = field(default_factory=dict)
    segments: tuple[int, int] = (0, 0)
    """Before the last start, and then: those of the group coordinator stay."""
    fsck: str = ""

    @property
    def is_good(self) -> bool:
        return not (self.failed or self.wrong or self.fsck)

    def report(self) -> Iterator[str]:
        yield f"records        {self.written:,} in {self.seconds:,.0f} s; failed {self.failed[:3]}"
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self.kinds.items()))
        yield f"kills          {self.kinds.total()}: {kinds}"
        for name, count in sorted(self.rebuilt.items()):
            restored = self.restored.get(name, [])
            shown = f", reading {restored[-1]:,} records the last time" if restored else ""
            longest = f"{self.longest_s[name]:.0f} s after a start at most"
            yield f"{name:14} held all that was written {count} times, {longest}{shown}"
        yield f"wrong          {self.wrong or 'nothing'}"
        yield f"beside them    {self.kept.report()}"
        for topic, (rows, clean_end) in self.tables.items():
            yield f"{topic:14} {rows:,} rows are left of {clean_end:,} offsets"
        before, left = self.segments
        yield f"segments       {left} of {before} were there at the last start"
        yield f"fsck           {self.fsck or 'the log is whole'}"


class Changelogs:
    """A run over brokers that serve `directory`; `say` gets a line of progress for each kill."""

    def __init__(
        self, directory: Path, brokers: Fleet, rng: random.Random, say: Callable[[str], None]
    ) -> None:
        self._log = directory_place(directory).url
        self._brokers = brokers
        self._rng = rng
        self._say = say
        bootstrap = brokers.bootstrap
        self._readers = {
            "table": StateReader("table", FACTS, bootstrap, directory),
            "schemas": StateReader("schemas", SCHEMAS, bootstrap, directory),
        }
        self._connect = ConnectWorker(bootstrap, directory)
        self._users: Sequence[StateReader | ConnectWorker] = (
            *self._readers.values(),
            self._connect,
        )
        self._outcome = ChangelogOutcome()
        self._took = ""

    def run(
        self, kinds: Iterable[str], seconds: float, every_s: float, rate: float, seed: int
    ) -> ChangelogOutcome:
        """Ends after `seconds`, or after the last kill, with the start from tables alone."""
        began_s, outcome = time.monotonic(), self._outcome
        create_topic(self._brokers.bootstrap, FACTS, PARTITIONS)
        create_topic(self._brokers.bootstrap, SCHEMAS, 1, COMPACTED)
        with ExitStack() as stack:
            for user in self._users:
                stack.callback(user.kill)
                user.start()
            writer = stack.enter_context(StateWriter(self._brokers.bootstrap, rate, seed))
            with MaintenanceLoop(KeptLog(self._log), self._rng) as loop:
                self._connect.work()
                for kind in kinds:
                    if time.monotonic() > began_s + seconds:
                        break
                    self._live(began_s, every_s, loop)
                    self._took = ""
                    self._kill(kind, writer, loop)
                    outcome.kinds[kind] += 1
                    self._say(
                        f"minute {(time.monotonic() - began_s) / 60:5.1f}: {kind}; "
                        f"{dict(outcome.rebuilt)}; {self._took}{loop.kept.report()}"
                    )
                loop.end()
                outcome.kept = loop.kept
            with writer.held():
                self._start_cold(writer)
            outcome.failed = writer.failed
            outcome.written = sum(state.count for state in writer.states.values())
        outcome.restored = {name: one.restored for name, one in self._readers.items()}
        self._judge_log()
        outcome.seconds = time.monotonic() - began_s
        return outcome

    def _live(self, began_s: float, every_s: float, loop: MaintenanceLoop) -> None:
        """Until a moment of chance in the next turn."""
        turn = int((time.monotonic() - began_s) / every_s) + 1
        moment_s = began_s + turn * every_s + self._rng.uniform(0, every_s / 2)
        while (left_s := moment_s - time.monotonic()) > 0:
            loop.require_alive()
            time.sleep(min(left_s, 0.5))

    def _kill(self, kind: str, writer: StateWriter, loop: MaintenanceLoop) -> None:
        if kind == BROKER:
            leaders = sorted(set(self._brokers.leaders(STORE).values()) - {-1})
            self._kill_broker(self._rng.choice(leaders))
        elif kind == COMPACTION:
            loop.kill()
        elif kind == CONNECT:
            self._connect.work()
            self._connect.kill()
            self._connect.start()
            self._judge(CONNECT, self._connect.require)
        else:
            reader = self._readers[kind]
            reader.kill()
            reader.start()
            with writer.held():
                state = writer.states[reader.topic].sum()
                self._judge(kind, lambda: reader.require(state))

    def _kill_broker(self, number: int) -> None:
        process = self._brokers.process(number)
        process.kill()
        assert process.wait(deadline_s=DEATH_S) == -signal.SIGKILL, process.lines[-5:]
        self._brokers.start(number)

    def _judge(self, name: str, require: Callable[[], None]) -> None:
        began_s, longest_s = time.monotonic(), self._outcome.longest_s
        try:
            require()
        except NotRebuilt as error:
            self._outcome.wrong.append(str(error))
        else:
            self._outcome.rebuilt[name] += 1
        took_s = time.monotonic() - began_s
        longest_s[name] = max(took_s, longest_s.get(name, 0.0))
        self._took = f"it took {took_s:.0f} s; "

    def _start_cold(self, writer: StateWriter) -> None:
        """Programs start on a log whose segments are gone: all is read from tables."""
        for user in self._users:
            user.kill()
        self._brokers.stop_all()
        kept = KeptLog(self._log)
        before = len(kept.keys(CHAINS))
        move_rest(Path(self._log))  # most went before: groups hold back what is left
        self._outcome.segments = before, len(kept.keys(CHAINS))
        for number in self._brokers.members:
            self._brokers.start(number)
        for user in self._users:
            user.start()
        for name, reader in self._readers.items():
            state = writer.states[reader.topic].sum()
            self._judge(name, lambda reader=reader, state=state: reader.require(state))  # type: ignore[misc]
        self._judge(CONNECT, self._connect.require)

    def _judge_log(self) -> None:
        kept = KeptLog(self._log)
        for topic in (STORE, SCHEMAS, *CONNECT_TOPICS):
            code, said = kept.command("inspect", "topic", topic, "--json")
            lines = json.loads(said)["cleaning"] if code == 0 else []
            rows = sum(line["table_rows"] for line in lines)
            self._outcome.tables[topic] = rows, sum(line["clean_end"] for line in lines)
        code, said = kept.command("fsck", "--data")
        self._outcome.fsck = said if code else ""


def run(
    directory: Path,
    *,
    seconds: float,
    every_s: float = 60.0,
    rate: float = 100.0,
    seed: int = 0,
    kinds: Iterable[str] | None = None,
    say: Callable[[str], None] = print,
) -> ChangelogOutcome:
    """A whole run, below `directory`. `kinds` of kills: else of all, in an order of chance."""
    rng = random.Random(seed)
    place = directory_place(directory)
    with fleet(place, BROKERS, rng, swallowed=False, more=SETTINGS) as brokers:
        changelogs = Changelogs(directory, brokers, rng, say)
        return changelogs.run(kinds or kinds_of(rng), seconds, every_s, rate, seed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=float, default=60.0, help="seconds from kill to kill")
    parser.add_argument("--rate", type=float, default=100.0, help="records a second and topic")
    parser.add_argument("--directory", type=Path, help="where to leave log and programs' output")
    options = parser.parse_args()
    heed_signals()
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.directory or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        outcome = run(
            directory,
            seconds=options.minutes * 60,
            every_s=options.every,
            rate=options.rate,
            seed=options.seed,
            say=lambda line: print(line, flush=True),
        )
    print(f"seed {options.seed}")
    for line in outcome.report():
        print(line)
    return 0 if outcome.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
