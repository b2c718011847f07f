"""Brokers of this version and of the release before beside each other, under a steady load.

    python -m tests.scenarios.harness.mixed_series [--rounds 1] [--partitions 24] [--rate 300]
        [--bytes 1000] [--seed N] [--directory DIR]

    old     three brokers of the release before make the log, and serve the load
    new     one after the other is stopped and started again with this version
    back    … and again with the release before: until a level is finalized that is safe
    new     … and forward; `--rounds` times back and forward
    final   `logstore upgrade --finalize`; a broker of the release before is refused at its start

After each roll a reader and a compaction of the release before work beside the brokers. A gap is
the longest time without an acknowledgement of any one partition. The judge reads the objects at the
end: nothing acknowledged is lost, stored twice or out of order. What failed are records that
producers gave up; what they repeated is not counted.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.releases import ROOT, Release, release_before
from tests.scenarios.harness.brokers import START_S, create_topic, refusal, start_broker
from tests.scenarios.harness.cluster_series import (
    BALANCE_OFTEN,
    TOPIC,
    ClusterSeries,
    Event,
    measure_gaps,
)
from tests.scenarios.harness.fleet import Fleet, directory_place, fleet
from tests.scenarios.harness.process import Process

READER = """
import sys, logstore
with logstore.open(sys.argv[1]) as log:
    print(log.read(sys.argv[2]).read_all().num_rows)
"""


@dataclass(frozen=True, slots=True)
class MixedOutcome:
    gaps: dict[str, float]
    """By roll, in order, the longest silence of any partition, in seconds."""
    read: Sequence[int]
    """Records that readers of the release before found, after each roll."""
    refused: str
    """What the release before said when it was started after the level was finalized."""
    verdict: dict[str, Any]
    seconds: float
    lines: Sequence[str]

    def report(self) -> Iterator[str]:
        for name, gap_s in self.gaps.items():
            yield f"{name:14} longest silence of a partition {gap_s:.2f} s"
        yield f"readers of the release before found {', '.join(map(str, self.read))} records"
        yield f"refused        {self.refused}"
        yield (
            f"records        sent {self.verdict['sent']}, acknowledged {self.verdict['acked']}, "
            f"failed {self.verdict['failed']}, in the objects {self.verdict['stored']}; "
            f"{self.seconds:.0f} s"
        )
        yield f"anomalies      {self.verdict['anomalies'] or 'none'}"
        for kind, texts in self.verdict["examples"].items():
            yield f"  {kind}: {'; '.join(texts)}"


@dataclass(slots=True)
class MixedSeries(ClusterSeries):
    release: Release = field(default_factory=release_before)
    rounds: int = 1
    names: list[str] = field(default_factory=list)
    read: list[int] = field(default_factory=list)

    def run_mixed(self) -> MixedOutcome:
        began_s, old = time.monotonic(), self.release.source()
        with ExitStack() as stack:
            brokers = stack.enter_context(
                fleet(
                    self.place,
                    self.brokers,
                    self.rng,
                    swallowed=False,
                    more=self.more,
                    source=old,
                )
            )
            create_topic(brokers.bootstrap, TOPIC, self.partitions)
            load = stack.enter_context(self._load(brokers))
            watch = stack.enter_context(self._client("watch", brokers))
            self._await_load(load)
            for number in range(self.rounds):
                self._roll(f"new {number + 1}", brokers, load, ROOT)
                self._roll(f"back {number + 1}", brokers, load, old)
            self._roll("new at last", brokers, load, ROOT)
            self._finalize()
            refused = self._start_old(brokers, old)
            self._settle(brokers, load)
            lines = self._stop_all(load, watch, brokers)
        gaps = measure_gaps(self.events, self._journal("load"))
        longest = [max(gap.affected_s, gap.others_s, gap.return_s) for gap in gaps]
        named = dict(zip(self.names, longest, strict=True))
        seconds = time.monotonic() - began_s
        return MixedOutcome(named, self.read, refused, self._judge(), seconds, lines)

    def _roll(self, name: str, brokers: Fleet, load: Process, source: Path) -> None:
        """Each broker in turn, to the version in `source`; then readers of the release before."""
        self._settle(brokers, load)
        everything = frozenset(range(self.partitions))
        at_s = time.monotonic()
        for number, member in brokers.members.items():
            process = brokers.process(number)
            process.send(signal.SIGTERM)
            assert process.wait(deadline_s=START_S) == 0, process.lines[-5:]
            member.source = source
            brokers.start(number)
        self.names.append(name)
        self.events.append(Event("roll", 0, everything, at_s, time.monotonic()))
        self._work_beside()

    def _work_beside(self) -> None:
        """Compaction and a reader of the release before."""
        source = self.release.source()
        arguments = ("logstore.cli.main", "compact", "--url", self.place.url, "--now")
        with Process(arguments, source=source) as run:
            assert run.wait(deadline_s=START_S) == 0, run.lines
        reader = [sys.executable, "-c", READER, self.place.url, TOPIC]
        read = subprocess.run(
            reader, cwd=source, capture_output=True, check=True, timeout=START_S, text=True
        )
        self.read.append(int(read.stdout))

    def _finalize(self) -> None:
        command = ("logstore.cli.main", "upgrade", "--url", self.place.url, "--finalize", "--json")
        with Process(command) as run:
            assert run.wait(deadline_s=START_S) == 0, run.lines
            assert json.loads("\n".join(run.said))["finalized_level"] > self.release.format_level

    def _start_old(self, brokers: Fleet, source: Path) -> str:
        """The one line of a broker of the release before; then this version goes on."""
        process = brokers.process(1)
        process.send(signal.SIGTERM)
        assert process.wait(deadline_s=START_S) == 0, process.lines[-5:]
        with start_broker(self.place.url, more=("--broker", "1"), source=source) as old:
            line = refusal(old)
        brokers.start(1)
        return line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--partitions", type=int, default=24)
    parser.add_argument("--rate", type=float, default=300.0, help="values a second")
    parser.add_argument("--bytes", type=int, default=1000, help="of a value")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--directory", type=Path, help="where to leave log and journals")
    options = parser.parse_args()
    why = release_before().why_not()
    if why is not None:
        print(why)
        return 1
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.directory or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        outcome = MixedSeries(
            directory,
            directory_place(directory),
            random.Random(options.seed),
            partitions=options.partitions,
            rate=options.rate,
            value_bytes=options.bytes,
            more=BALANCE_OFTEN,
            rounds=options.rounds,
        ).run_mixed()
    for line in outcome.report():
        print(line)
    return 1 if outcome.verdict["anomalies"] else 0


if __name__ == "__main__":
    sys.exit(main())
