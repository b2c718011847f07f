"""Runs everything that must pass, tier by tier, and sums up: `make test`.

Each tier is one pytest run of several processes; deadlines allow for a loaded machine. Tests of
real processes, clients and Spark wait for half of their time, for leases and starts: simulations
and planted bugs, which need nothing but the processor, have the rest, at the lowest priority. A
tier that cannot run on this machine says so in a line of its own and in the last line. That last
line counts the tests of all tiers; a failed check (format, lint, types, imports) counts as one.

Where CI is set, tests that failed and may be noise run once more, alone, at the end (`flaky`).

Simulations play other seeds each day beside those that they always play. The first of them is
printed at the beginning and at the end; `--first-daily-seed` plays the same ones again.
"""

import argparse
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from logstore.ports.clock import SystemClock
from tools.flaky import flaky_among, read_ids
from tools.java import why_no_java

REPORTS = Path("build/reports")
TOTAL = REPORTS / "total.txt"
CHECKS = ("format", "lint", "types", "imports")
PLANTED = "tests/planted"
SIMULATED = ("tests/simulation", "tests/model")
TESTS = Path("tests")
NO_TESTS = 5  # pytest's exit code when it selected none
DAY_MS = 86_400_000
SEEDS_A_DAY = 10_000
ERROR_CHARS_SHOWN = 600
ARCHIVES = ("-m", "tests.servers.make_archives")
"""Classes that the Javas of later tiers map: each starts with half of the CPU seconds."""
PREPARING_PRIORITY = 5


@dataclass(frozen=True, slots=True)
class Tier:
    name: str
    arguments: tuple[str, ...]
    parallel: bool = False
    jobs_more: int = 0
    """Test processes beyond those that are asked for: its tests wait for threads, disks, starts,
    and have no short deadline."""
    compares: bool = False
    """Its tests want the reports of the tiers before it: what passes without a planted bug."""
    why_not: Callable[[], str | None] = lambda: None
    beside: bool = False
    """It takes the time that the tiers after it leave, and is shown at the end."""
    mark: str | None = None
    """Only files that have this mark are collected: few of all, and collecting takes each process
    a dozen seconds."""
    left_out: tuple[str, ...] = ()
    """Folders of other tiers that have this mark too."""

    def selected(self) -> tuple[str, ...]:
        """pytest's arguments that select its tests."""
        if self.mark is None:
            return self.arguments
        return (*self.arguments, *marked_files(self.mark, self.left_out))


@dataclass(frozen=True, slots=True)
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped
        )

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


TIERS = (
    Tier("simulated", ("-m", "slow", *SIMULATED), parallel=True, beside=True),
    Tier("fast", ("-m", "not slow and not spark and not clients"), parallel=True, jobs_more=1),
    Tier(
        "slow",
        ("-m", "slow and not spark and not clients"),
        parallel=True,
        jobs_more=1,
        mark="slow",
        left_out=(PLANTED, *SIMULATED),
    ),
    Tier("planted", ("-m", "slow", PLANTED), parallel=True, compares=True, beside=True),
    Tier("clients", ("-m", "clients and not spark"), parallel=True, mark="clients"),
    Tier(
        "spark",
        ("-m", "spark"),
        parallel=True,
        jobs_more=1,
        why_not=why_no_java,
        mark="spark",
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2, help="test processes at a time")
    parser.add_argument(
        "--first-daily-seed", type=int, help="of the simulations' other seeds; else by the date"
    )
    parser.add_argument("--only", choices=[tier.name for tier in TIERS], help="this tier alone")
    options = parser.parse_args()
    first = options.first_daily_seed
    first = first_daily_seed(SystemClock().now_ms()) if first is None else first
    print(f"seeds of the day: --first-daily-seed {first}", flush=True)

    REPORTS.mkdir(parents=True, exist_ok=True)
    TOTAL.unlink(missing_ok=True)
    began = time.perf_counter()
    with preparing(ARCHIVES if options.only is None else ()):
        ran = run_tiers(options.only, options.jobs, first)
    # Again and in short: the whole errors may be far above, or cut off by who shows this output.
    failures = [line for report in ran.reports for line in failures_in(report)]
    flaky = flaky_of(ran) if os.environ.get("CI") == "true" else []
    ran.total += Counts(passed=len(flaky), failed=-len(flaky))
    print("\n" + "\n".join([*ran.lines, *failures, *map("FLAKY      {}".format, flaky)]))
    if flaky:
        print(f"flaky      {len(flaky)}: failed, and passed alone; find the cause")
    print(f"seeds of the day: --first-daily-seed {first}")
    suffix = f"; not run: {', '.join(ran.not_run)}" if ran.not_run else ""
    text = f"{ran.total} in {time.perf_counter() - began:.0f} s{suffix}"
    TOTAL.write_text(text + "\n")
    print(text, flush=True)
    return 1 if ran.total.failed else 0


def flaky_of(ran: "Ran") -> list[str]:
    """Run again what failed; returns the tests that passed then."""
    failed = [one for report in ran.reports for one in read_ids(ids_of(report))]
    return flaky_among(failed) if failed else []


@contextmanager
def preparing(module: Sequence[str]) -> Iterator[None]:
    """Runs the module beside the first tiers, if one is named."""
    if not module:
        yield
        return
    command = ["nice", "-n", str(PREPARING_PRIORITY), sys.executable, *module]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


@dataclass(slots=True)
class Ran:
    """Counts, lines and reports of the tiers that have run."""

    total: Counts = Counts()
    lines: list[str] = field(default_factory=list)
    not_run: list[str] = field(default_factory=list)
    reports: list[Path] = field(default_factory=list)


def run_tiers(only: str | None, jobs: int, first_daily: int) -> Ran:
    """All tiers in order, or one; the checks before the first that is waited for."""
    ran = Ran()
    with ExitStack() as running:
        beside: list[Run] = []
        to_check = only is None
        for tier in TIERS:
            if only not in (None, tier.name):
                continue
            if reason := tier.why_not():
                ran.not_run.append(tier.name)
                ran.lines.append(f"{tier.name:10} NOT RUN on this machine: {reason}")
                print(ran.lines[-1], flush=True)
                continue
            is_beside = tier.beside and jobs > 1 and only is None
            if to_check and not is_beside:
                to_check = False
                ran.total += run_checks(ran.lines)
            earlier = ran.reports if tier.compares else ()
            run = running.enter_context(begun(tier, jobs, first_daily, earlier, beside=is_beside))
            ran.reports.append(report_of(tier))
            if is_beside:
                beside.append(run)
            else:
                ran.total += run.counts(ran.lines)
        for run in beside:
            ran.total += run.counts(ran.lines)
    return ran


def run_checks(lines: list[str]) -> Counts:
    failed = 0
    for check in CHECKS:
        began = time.perf_counter()
        code = subprocess.run(["make", check], stdin=subprocess.DEVNULL).returncode
        failed += code != 0
        verdict = "ok" if code == 0 else "FAILED"
        lines.append(f"{check:10} {verdict} in {time.perf_counter() - began:.0f} s")
        print(lines[-1], flush=True)
    return Counts(failed=failed)


def first_daily_seed(now_ms: int) -> int:
    """The first of the day's seeds, far above those that are always played; of no two days one."""
    return now_ms // DAY_MS * SEEDS_A_DAY


def marked_files(mark: str, left_out: Sequence[str] = ()) -> list[str]:
    """Files of tests that mark some of them so, or whose folder's conftest.py does."""
    folders = {path.parent for path in TESTS.glob("*/**/conftest.py") if _gives(path, mark)}
    return [
        str(path)
        for path in sorted(TESTS.rglob("test_*.py"))
        if not any(path.is_relative_to(folder) for folder in left_out)
        if path.parent in folders or _gives(path, mark)
    ]


def _gives(path: Path, mark: str) -> bool:
    return f"pytest.mark.{mark}" in path.read_text()


def report_of(tier: Tier) -> Path:
    return REPORTS / f"{tier.name}.xml"


def ids_of(report: Path) -> Path:
    """Where the ids of the tests that failed are, beside a tier's report."""
    return report.with_suffix(".failed.json")


@dataclass(frozen=True, slots=True)
class Run:
    tier: Tier
    began: float
    process: subprocess.Popen[bytes]
    shown: Path | None
    """Where its output is; `None` if that is seen already."""

    def counts(self, lines: list[str]) -> Counts:
        """Waits until the tier has ended."""
        code = self.process.wait()
        if self.shown:
            print(f"\n--- {self.tier.name}\n{self.shown.read_text()}", flush=True)
        counts = read_report(report_of(self.tier))
        if code not in (0, NO_TESTS) and not counts.failed:
            counts += Counts(failed=1)  # pytest itself failed: nothing in its report says so
        beside = " beside others" if self.shown else ""
        seconds = time.perf_counter() - self.began
        lines.append(f"{self.tier.name:10} {counts} in {seconds:.0f} s{beside}")
        return counts


@contextmanager
def begun(
    tier: Tier, jobs: int, first_daily: int, earlier: Sequence[Path], *, beside: bool
) -> Iterator[Run]:
    """`earlier`: reports of tiers that ran before it. No process outlives the context."""
    report = report_of(tier)
    report.unlink(missing_ok=True)
    ids_of(report).unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "--durations=15"]
    command += [f"--junitxml={report}", f"--first-daily-seed={first_daily}"]
    command += ["-p", "tools.flaky", f"--failed-ids={ids_of(report)}"]
    command += [f"--passed-in={known.resolve()}" for known in earlier if known.exists()]
    if tier.parallel and jobs > 1:
        # Neighbours share brokers and Sparks, and long tests would leave a process without work.
        command += ["-n", str(jobs + tier.jobs_more), "--dist", "worksteal"]
    command += tier.selected()
    began = time.perf_counter()
    if not beside:
        print(f"\n--- {tier.name}", flush=True)
        with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
            yield Run(tier, began, process, None)
        return
    print(f"\n--- {tier.name}: beside the next ones, shown at the end", flush=True)
    shown = REPORTS / f"{tier.name}.txt"
    command = ["nice", "-n", "19", *command]
    with shown.open("wb") as output, subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
    ) as process:  # fmt: skip
        try:
            yield Run(tier, began, process, shown)
        finally:
            process.terminate()


def failures_in(path: Path) -> Iterator[str]:
    """Failures in pytest's JUnit report, each with the beginning of its error in one line."""
    if not path.exists():
        return
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        for error in (*case.findall("failure"), *case.findall("error")):
            text = " | ".join(
                line for line in error.get("message", "").splitlines() if line.strip()
            )
            name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
            yield f"FAILED     {name}: {text[:ERROR_CHARS_SHOWN]}"


def read_report(path: Path) -> Counts:
    """The sums in pytest's JUnit report; none if there is no report."""
    if not path.exists():
        return Counts()
    total = Counts()
    for suite in ElementTree.parse(path).getroot().iter("testsuite"):
        tests, failed, errors, skipped = (
            int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")
        )
        total += Counts(tests - failed - errors - skipped, failed + errors, skipped)
    return total


if __name__ == "__main__":
    sys.exit(main())
