"""Log → Spark → log → Spark → Delta for an hour, a kill every minute: each row once, in order.

    python -m tests.scenarios.harness.pipeline --minutes 60 --seed 0 [--every 60] [--rate 150]
        [--no-bucket] [--directory DIR]

Three brokers; a producer writes seeded rows to `source`; one Spark driver copies `source` to
`target` through the exactly-once sink, another copies `target` to a Delta table. Beside them a
process compacts both topics, merges files of their tables as an owner would (OPTIMIZE), trims with
a grace of seconds, and sweeps what the sink staged. Every `--every` seconds one process is killed
by kill -9, of a kind drawn from the seed:

    before-manifest, …      the copying driver at a point of its commit (`sink.mortal`)
    copy driver             … after a batch and a delay of chance
    table driver            the other one, alike
    table driver in batch   … while a batch has begun that is not done
    copy worker, …          a Python process of a driver: its query ends, and it starts again
    leader                  a broker that leads partitions of `target`
    leader at a put         … before or after a put of a segment, at the store (`death`)
    controller              the broker that is the controller
    compaction              the process beside them

At the end all is drained, and `target`, read by a consumer, and the Delta table must hold each row
that was acknowledged, once, as it was, those of each key in order. `staging/` must hold manifests
alone, and `logstore fsck --data` find nothing. Ctrl-C ends a run early: nothing is drained then,
and no row counts as lost.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from deltalake import DeltaTable

from logstore.formats.staging_keys import STAGING, place_of
from logstore.testing.interruptible import heed_signals
from tests.scenarios.harness.bucket import Weather, bucket
from tests.scenarios.harness.fleet import directory_place, fleet
from tests.scenarios.harness.history_readers import batches, consume
from tests.scenarios.harness.maintenance import GRACE_MS, KeptLog
from tests.scenarios.harness.maintenance_loop import Kept, MaintenanceLoop
from tests.scenarios.harness.pipeline_rows import RowProducer, SentRows
from tests.scenarios.harness.pipeline_verdict import FoundRows, PipelineVerdict
from tests.scenarios.harness.query_driver import QueryDriver
from tests.servers.short_java import spark_variables
from tests.spark_source.sink.log import ServedLog
from tests.spark_source.sink.mortal import POINTS

BROKERS, SOURCE_PARTITIONS, TARGET_PARTITIONS, BATCH_ROWS = 3, 2, 5, 10_000
SOURCE, TARGET = "source", "target"
TOPICS = {"retention.ms": "-1"}
"""The rows' timestamps are years old."""
COPY_DRIVER, TABLE_DRIVER, IN_BATCH = "copy driver", "table driver", "table driver in batch"
COPY_WORKER, TABLE_WORKER = "copy worker", "table worker"
LEADER, AT_A_PUT, CONTROLLER = "leader", "leader at a put", "controller"
COMPACTION = "compaction"
KINDS = (
    *POINTS,
    *(COPY_DRIVER, TABLE_DRIVER, IN_BATCH, IN_BATCH, COPY_WORKER, TABLE_WORKER),
    *(LEADER, LEADER, AT_A_PUT, AT_A_PUT, CONTROLLER, COMPACTION, COMPACTION),
)
DELAY_S_MAX = 2.0
LOOK_S, DEATH_S = 0.05, 600.0
STANDSTILL_S = 600.0
"""A drain in which for so long no batch ends has come to its end."""
SWEEP_S = 120.0
MAINTENANCE = ("--sweep", "--pause", "5")
SETTINGS = ("--set", "logstore.delete.grace.ms=60000")


def kinds_of(rng: random.Random) -> Iterator[str]:
    """Without end; each kind as often as the next, in an order of chance."""
    while True:
        yield from rng.sample(KINDS, len(KINDS))


@dataclass(slots=True)
class PipelineOutcome:
    sent: SentRows
    seconds: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)
    kept: Kept = field(default_factory=Kept)
    verdicts: dict[str, PipelineVerdict] = field(default_factory=dict)
    """By reader."""
    manifests: int = 0
    left: list[str] = field(default_factory=list)
    """What is in `staging/` beside them at the end."""
    fsck: str = ""
    """What it found; nothing if the log is whole."""
    interrupted: bool = False

    @property
    def is_good(self) -> bool:
        verdicts = all(verdict.is_good for verdict in self.verdicts.values())
        return verdicts and not (self.sent.failed or self.left or self.fsck)

    def report(self) -> Iterator[str]:
        if self.interrupted:
            yield "interrupted    nothing was drained; what is not there yet does not count as lost"
        yield (
            f"rows           {len(self.sent.keys):,} ({self.sent.size_bytes / 1e6:,.0f} MB) in "
            f"{self.seconds:,.0f} s; {len(self.sent.failed)} failed {self.sent.failed[:3] or ''}"
        )
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self.kinds.items()))
        yield f"kills          {self.kinds.total()}: {kinds}"
        yield f"beside them    {self.kept.report()}"
        for name, verdict in self.verdicts.items():
            yield f"{name:14} {verdict.report()}"
        if not self.interrupted:
            yield f"staging        {self.manifests} manifests, {self.left[:3] or 'nothing else'}"
            yield f"fsck           {self.fsck or 'the log is whole'}"


class Pipeline:
    """A run over a log that is served; `say` gets a line of progress for each kill."""

    def __init__(
        self,
        directory: Path,
        log: ServedLog,
        kept: KeptLog,
        rng: random.Random,
        say: Callable[[str], None],
    ) -> None:
        self._log = log
        self._kept = kept
        self._rng = rng
        self._say = say
        self._table = directory / "table"
        self._copy = self._driver(directory, "copy", SOURCE, TARGET)
        self._fill = self._driver(directory, "table", TARGET, str(self._table))
        self._began_s = time.monotonic()

    def _driver(self, directory: Path, query: str, topic: str, to: str) -> QueryDriver:
        checkpoint = directory / f"checkpoint-{query}"
        module = "tests.scenarios.harness.pipeline_driver"
        command = [module, query, "--log", self._kept.url, "--topic", topic, "--to", to]
        command += ["--checkpoint", str(checkpoint), "--batch-rows", str(BATCH_ROWS)]
        if self._kept.endpoint:
            command += ["--endpoint", self._kept.endpoint]
        return QueryDriver(command, checkpoint, directory)

    def run(
        self, kinds: Iterable[str], seconds: float, every_s: float, rate: float, seed: int
    ) -> PipelineOutcome:
        """The producer ends after `seconds`, or after the last kill; all is drained and judged."""
        self._log.create(SOURCE, SOURCE_PARTITIONS, **TOPICS)
        self._log.create(TARGET, TARGET_PARTITIONS, **TOPICS)
        with ExitStack() as stack:
            stack.callback(self._fill.end)
            stack.callback(self._copy.end)
            loop = stack.enter_context(MaintenanceLoop(self._kept, self._rng, more=MAINTENANCE))
            rows = stack.enter_context(RowProducer(self._log.bootstrap, SOURCE, rate, seed))
            outcome = PipelineOutcome(rows.sent)
            try:
                self._kill_every(kinds, every_s, seconds, rows, loop, outcome.kinds)
                rows.end()
                self._drain(rows.count)
                self._end(loop, outcome)
            except KeyboardInterrupt:
                outcome.interrupted = True
                self._copy.end()
                self._fill.end()
                rows.end()
                self._judge_topic(outcome)
                outcome.kept = loop.kept
            self._judge_table(outcome)
        outcome.seconds = time.monotonic() - self._began_s
        return outcome

    def _kill_every(
        self,
        kinds: Iterable[str],
        every_s: float,
        seconds: float,
        rows: RowProducer,
        loop: MaintenanceLoop,
        killed: Counter[str],
    ) -> None:
        """One process in each turn of `every_s`, at a moment of chance in its first half."""
        begins_s = time.monotonic()
        until_s = begins_s + seconds
        for kind in kinds:
            moment_s = begins_s + self._rng.uniform(0, every_s / 2)
            begins_s += every_s
            if begins_s > until_s + every_s / 2:
                return
            self._live_until(moment_s, loop)
            self._kill(kind, loop)
            killed[kind] += 1
            self._live_until(begins_s, loop)
            self._say(
                f"minute {(time.monotonic() - self._began_s) / 60:5.1f}: {kind}; rows "
                f"{rows.count:,}, copied {self._copy.rows_done:,}, in the table "
                f"{self._fill.rows_done:,}; {loop.kept.report()}"
            )

    def _live_until(self, moment_s: float, loop: MaintenanceLoop) -> None:
        """Drivers whose query has ended start again."""
        while True:
            loop.require_alive()
            for driver in (self._copy, self._fill):
                driver.run()
            if (left_s := moment_s - time.monotonic()) <= 0:
                return
            time.sleep(min(left_s, 0.5))

    def _kill(self, kind: str, loop: MaintenanceLoop) -> None:
        match kind:
            case _ if kind in POINTS:
                self._copy.run_mortal(kind).wait(deadline_s=DEATH_S)
            case "copy driver" | "copy worker":
                self._await_batch(self._copy)
                self._end_of(self._copy, kind == COPY_WORKER)
            case "table driver" | "table worker":
                self._await_batch(self._fill)
                self._end_of(self._fill, kind == TABLE_WORKER)
            case "table driver in batch":
                self._await_open_batch(self._fill)
                self._fill.end()
            case "leader" | "leader at a put":
                leaders = sorted(set(self._log.brokers.leaders(TARGET).values()) - {-1})
                self._kill_broker(self._rng.choice(leaders), at_a_put=kind == AT_A_PUT)
            case "controller":
                self._kill_broker(self._log.brokers.controller())
            case _:
                loop.kill()

    def _end_of(self, driver: QueryDriver, is_worker: bool) -> None:
        time.sleep(self._rng.uniform(0, DELAY_S_MAX))
        if is_worker:
            driver.kill_a_worker(self._rng)
        else:
            driver.end()

    def _await_batch(self, driver: QueryDriver) -> None:
        """Of this driver, or of the next one if its query ends before: a broker was away."""
        batch = None
        while batch is None:
            process = driver.run()
            batch = process.wait_for_line_or_end(
                r"^batch \d", after=len(process.lines), deadline_s=DEATH_S
            )

    def _await_open_batch(self, driver: QueryDriver) -> None:
        deadline_s = time.monotonic() + DEATH_S
        while driver.run() and not driver.is_batch_open:
            assert time.monotonic() < deadline_s, "no batch begins"
            time.sleep(LOOK_S)
        time.sleep(self._rng.uniform(0, DELAY_S_MAX))

    def _kill_broker(self, number: int, *, at_a_put: bool = False) -> None:
        process = self._log.brokers.process(number)
        if at_a_put:
            process.send(signal.SIGUSR1)
        else:
            process.kill()
        assert process.wait(deadline_s=DEATH_S) == -signal.SIGKILL, process.lines[-5:]
        self._log.brokers.start(number)

    def _drain(self, rows: int) -> None:
        self._await_rows(self._copy, rows)
        self._await_rows(self._fill, self._log.record_count(TARGET))
        self._copy.end()
        self._fill.end()

    def _await_rows(self, driver: QueryDriver, count: int) -> None:
        """Until so many are in batches that are done, or none ends any more."""
        done, since_s = -1, time.monotonic()
        while driver.rows_done < count and time.monotonic() < since_s + STANDSTILL_S:
            if driver.rows_done > done:
                done, since_s = driver.rows_done, time.monotonic()
            self._copy.run()
            self._fill.run()
            time.sleep(0.5)

    def _end(self, loop: MaintenanceLoop, outcome: PipelineOutcome) -> None:
        self._judge_topic(outcome)
        loop.end()
        outcome.kept = loop.kept
        self._log.brokers.stop_all()  # they leave checkpoints, which know what is copied
        self._sweep_all(outcome)
        code, said = self._kept.command("fsck", "--data")
        outcome.fsck = said if code else ""

    def _sweep_all(self, outcome: PipelineOutcome) -> None:
        """What is published to be trimmed goes too, once the grace has passed."""
        outcome.kept.count([self._kept.compact()])
        began_s = time.monotonic()
        while True:
            outcome.kept.count([f"trimmed objects={self._kept.trim()}", self._kept.sweep()])
            keys = self._kept.keys(STAGING)
            manifests = {place[0].manifest_key for key in keys if (place := place_of(key))}
            outcome.left = sorted(set(keys) - manifests)
            outcome.manifests = len(keys) - len(outcome.left)
            took_s = time.monotonic() - began_s
            if (not outcome.left and took_s > 2 * GRACE_MS / 1000) or took_s > SWEEP_S:
                return
            time.sleep(1)

    def _judge_topic(self, outcome: PipelineOutcome) -> None:
        found = FoundRows()
        consume(self._log.bootstrap, TARGET, self._log.ends(TARGET), found.add)
        outcome.verdicts[TARGET] = found.judge(outcome.sent, is_all=not outcome.interrupted)

    def _judge_table(self, outcome: PipelineOutcome) -> None:
        found = FoundRows()
        if self._table.exists():
            found.add_batches(batches(DeltaTable(self._table)))
        outcome.verdicts["Delta table"] = found.judge(outcome.sent, is_all=not outcome.interrupted)


def run(
    directory: Path,
    *,
    seconds: float,
    every_s: float = 60.0,
    rate: float = 150.0,
    seed: int = 0,
    kinds: Iterable[str] | None = None,
    in_a_bucket: bool = False,
    say: Callable[[str], None] = print,
) -> PipelineOutcome:
    """A whole run, below `directory`. `kinds` of kills: else of all, in an order of chance."""
    rng = random.Random(seed)
    with ExitStack() as stack:
        place, endpoint = directory_place(directory), None
        if in_a_bucket:
            fine = Weather(objects=(), rows=(), latency=0.0)
            its_bucket = stack.enter_context(bucket(directory, fine))
            place, endpoint = its_bucket.place, its_bucket.objects_proxy
        brokers = stack.enter_context(
            fleet(
                place, BROKERS, rng, swallowed=False, more=SETTINGS, launch=_mortal(rng, directory)
            )
        )
        log = ServedLog(place.url, brokers)
        pipeline = Pipeline(directory, log, KeptLog(place.url, endpoint), rng, say)
        return pipeline.run(kinds or kinds_of(rng), seconds, every_s, rate, seed)


def _mortal(rng: random.Random, directory: Path) -> Callable[[], Sequence[str]]:
    """Each broker process counts its puts from a signal on, and dies at one of the next."""

    def launch() -> Sequence[str]:
        step = f"create data {rng.choice(('before', 'after'))} {rng.randint(1, 5)}"
        report = str(directory / "death.json")
        return ("--die", step, "--armed-by", "signal", "--report", report, "--")

    return launch


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=float, default=60.0, help="seconds from kill to kill")
    parser.add_argument("--rate", type=float, default=150.0, help="rows a second, about 1 KB each")
    parser.add_argument("--no-bucket", action="store_true", help="a directory holds the log")
    parser.add_argument("--directory", type=Path, help="where to leave log, table and checkpoints")
    options = parser.parse_args()
    heed_signals()
    for name, text in spark_variables().items():
        os.environ.setdefault(name, text)
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.directory or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        outcome = run(
            directory,
            seconds=options.minutes * 60,
            every_s=options.every,
            rate=options.rate,
            seed=options.seed,
            in_a_bucket=not options.no_bucket,
            say=lambda line: print(line, flush=True),
        )
    print(f"seed {options.seed}")
    for line in outcome.report():
        print(line)
    return 0 if outcome.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
