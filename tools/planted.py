"""Plants known bugs and demands that a test goes red for each: are the safety tests any good?

Planted bugs are files tests/planted/NAME.toml; `tools/planted_bug.py` draws one.

They are planted in a copy of the tree, one after the other, and each run of pytest there is forked
from a process that has its libraries loaded (`tools/warm_pytest.py`). Each edit must find its
place, one of the tests that the bug names must fail, and that test must pass without the bug: an
error while collecting or setting up proves nothing. In `make test` other tiers have run all tests
without a bug, and their reports say what passed; otherwise the test that failed runs again.
"""

import argparse
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.planted_bug import PlantedBug, Unproven, planted, read_bugs
from tools.tree import tree_files

ROOT = Path(__file__).resolve().parent.parent
FOLDER = "tests/planted"
COMPILED = ROOT / "build/pycache"
"""Where Python keeps the modules that it compiled: the Makefile's PYTHONPYCACHEPREFIX."""
GENERATED = "build/full_wire"
RUNNER = Path(__file__).with_name("warm_pytest.py")
RUN_TIMEOUT_S = 900
TEST_TIMEOUT_S = 180
"""Of a fast test: at the lowest priority it waits for the processor, which is no proof of a bug."""
_PLAIN_NAME = re.compile(r"[\w\[\]=.-]+")


@dataclass(frozen=True, slots=True)
class CaseId:
    """A test as pytest's JUnit reports have it, with its parameters: `test_x[seed=3]`."""

    classname: str
    name: str


@dataclass(frozen=True, slots=True)
class Proof:
    bug: PlantedBug
    red_by: str  # the first test that failed; empty if none did
    why_not: str  # empty if proven
    seeds_to_detection: int | None
    cpu_s: float  # CPU seconds of its runs of pytest


def prove(bug: PlantedBug, root: Path = ROOT) -> Proof:
    """Plant one bug in a copy of the tree at `root`, and see who notices."""
    with copied(root) as copy:
        return prove_in(copy, bug, root)


def prove_in(
    copy: "Copy", bug: PlantedBug, root: Path = ROOT, passed: Collection[CaseId] = ()
) -> Proof:
    """As `prove`, in a copy that is as the tree is, and that is so again afterwards.

    `passed`: tests that are known to pass without the bug.
    """
    used_before_s = copy.cpu_s
    red_by, why_not, seeds = "", "", None
    try:
        for package in bug.packages:
            check_import_comes_from(copy.path, package)
        with planted_in(copy.path, bug, root):
            red, node, seeds = expect_red(bug, copy)
        red_by = red.name
        if red not in passed:
            expect_green(bug, copy, node)
    except Unproven as reason:
        why_not = str(reason)
    return Proof(bug, red_by, why_not, seeds, copy.cpu_s - used_before_s)


@dataclass(slots=True)
class Copy:
    path: Path
    runner: subprocess.Popen[str]
    """tools/warm_pytest.py, in the copy."""
    cpu_s: float = 0.0
    """Of all runs of pytest in it so far."""


@contextmanager
def copied(root: Path) -> Iterator[Copy]:
    with tempfile.TemporaryDirectory(prefix="planted-") as scratch:
        path = Path(scratch).resolve() / "tree"
        copy_tree(root, path)
        share_generated(root, path)
        with compiled_once(root, path), subprocess.Popen(
            [sys.executable, "-P", str(RUNNER)], cwd=path, env=variables_in(path), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        ) as runner:  # fmt: skip
            yield Copy(path, runner)


def copy_tree(root: Path, copy: Path) -> None:
    for name in tree_files(root):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, copy / name)


def share_generated(root: Path, copy: Path) -> None:
    """Lets all copies have what `tools/full_wire.py` generates, in folders named after its sources.

    To generate it again costs a run more than it needs for all else.
    """
    shared, link = root / GENERATED, copy / GENERATED
    shared.mkdir(parents=True, exist_ok=True)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(shared.resolve(), target_is_directory=True)


@contextmanager
def compiled_once(root: Path, copy: Path) -> Iterator[None]:
    """Lets all copies share what Python compiled of the tree's modules: more than half of a run.

    Python compiles a module again if its file has another time or size than it had then.
    """
    shared, link = (COMPILED / path.resolve().relative_to("/") for path in (root, copy))
    shared.mkdir(parents=True, exist_ok=True)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(shared, target_is_directory=True)
    try:
        yield
    finally:
        shutil.rmtree(link.parent)


@contextmanager
def planted_in(copy: Path, bug: PlantedBug, root: Path) -> Iterator[None]:
    """Has the bug in the copy for a while.

    Each changed file gets another time, in whole seconds: Python compares no finer ones.
    """
    changed = planted(bug, copy)
    try:
        for path, text in changed.items():
            before = path.stat().st_mtime
            path.write_text(text)
            os.utime(path, (before + 10, before + 10))
        yield
    finally:
        for path in changed:
            shutil.copy2(root / path.relative_to(copy), path)


@cache
def check_import_comes_from(copy: Path, package: str) -> None:
    """The tests must not test an editable install of the real tree."""
    command = [sys.executable, "-c", f"import {package}; print({package}.__file__)"]
    answer = subprocess.run(
        command, cwd=copy, env=variables_in(copy), capture_output=True, text=True,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if answer.returncode or not Path(answer.stdout.strip()).is_relative_to(copy):
        raise Unproven(f"{package} is not imported from the copy: {last_line(answer.stderr)}")


def expect_green(bug: PlantedBug, copy: Copy, node: str) -> None:
    code, output = run_tests(bug, copy, node, green=True)
    if code != 0:
        raise Unproven(f"without the bug the tests do not pass: {last_line(output)}")


def expect_red(bug: PlantedBug, copy: Copy) -> tuple[CaseId, str, int | None]:
    """The test that failed first, how pytest selects it, and after how many seeds if it says so."""
    report = copy.path / "report.xml"
    report.unlink(missing_ok=True)
    code, output = run_tests(bug, copy, *bug.red, f"--junitxml={report}", "-ojunit_family=xunit1")
    if code == 0:
        raise Unproven("no test noticed")
    failed = first_failure(report) if report.exists() else None
    if code != 1 or failed is None:
        raise Unproven(f"no test failed, the run did: {last_line(output)}")
    played = re.search(r"^seeds to detection: (\d+)", output, re.MULTILINE)
    return *failed, int(played[1]) if played else None


def first_failure(report: Path) -> tuple[CaseId, str] | None:
    """The first test whose own body failed, and how pytest selects it."""
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        if case.find("failure") is None:
            continue
        file, name = case.get("file", ""), case.get("name", "")
        classname = case.get("classname", "")
        classes = classname[len(file.removesuffix(".py")) :].replace(".", "::")
        selected = name if _PLAIN_NAME.fullmatch(name) else name.split("[")[0]
        return CaseId(classname, name), f"{file}{classes}::{selected}"
    return None


def passed_tests(reports: Sequence[Path]) -> set[CaseId]:
    """Those that passed, as pytest's JUnit reports have it."""
    return {
        CaseId(case.get("classname", ""), case.get("name", ""))
        for report in reports
        for case in ElementTree.parse(report).getroot().iter("testcase")
        if not len(case) or {each.tag for each in case} <= {"properties"}
    }


def run_tests(bug: PlantedBug, copy: Copy, *arguments: str, green: bool = False) -> tuple[int, str]:
    """pytest's exit code and what it printed.

    `green`: the copy is as the tree is, so its compiled files serve all copies.
    """
    options = ["-x", "-q", "-m", "", "-p", "no:cacheprovider", f"--timeout={TEST_TIMEOUT_S}"]
    if bug.seeds is not None:
        options += [f"--seeds={bug.seeds}", f"--first-seed={bug.first_seed}"]
    environment = variables_in(copy.path)
    if not green:
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        environment["PLANTED"] = "yes"  # what never happens is not waited for as long
    output = copy.path / "output.txt"
    run = {
        "arguments": [*options, *arguments],
        "environment": environment,
        "output": str(output),
        "timeout_s": RUN_TIMEOUT_S,
    }
    assert copy.runner.stdin and copy.runner.stdout
    print(json.dumps(run), file=copy.runner.stdin, flush=True)
    answer = copy.runner.stdout.readline()
    if not answer:
        raise Unproven("the process that forks runs of pytest has ended")
    ended = json.loads(answer)
    copy.cpu_s += ended["cpu_s"]
    if ended["code"] is None:
        raise Unproven(f"still running after {RUN_TIMEOUT_S} s")
    return ended["code"], output.read_text()


def variables_in(copy: Path) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        "PYTHONPATH": str(copy),
        "PYTHONPYCACHEPREFIX": str(COMPILED),
        "PYTHONDONTWRITEBYTECODE": "",
        "CI": "true",  # the same examples each time
        "SHRINK": "no",  # the first that fails is enough
    }


def last_line(output: str) -> str:
    return (output.strip().splitlines() or ["no output"])[-1]


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="name the bugs, plant none")
    parser.add_argument("--only", metavar="NAME", action="append", help="this bug; may be repeated")
    parser.add_argument("--jobs", type=int, default=2, help="bugs at a time")
    parser.add_argument("--check", action="store_true", help="only see that each finds its place")
    options = parser.parse_args(arguments)
    try:
        bugs = read_bugs(root / FOLDER)
    except Unproven as reason:
        parser.exit(2, f"{reason}\n")
    if unknown := set(options.only or ()) - {bug.name for bug in bugs}:
        parser.exit(2, f"no planted bug is called {', '.join(sorted(unknown))}\n")
    chosen = [bug for bug in bugs if not options.only or bug.name in options.only]
    if options.list:
        print_table([("bug", "rule", "red"), *((b.name, b.rule, " ".join(b.red)) for b in chosen)])
        return 0
    if options.check:
        return show_misplaced(chosen, root)
    proofs = prove_all(chosen, root, min(options.jobs, len(chosen)))
    print_table([("bug", "rule", "red by", "seeds", "CPU s"), *map(_row, proofs)])
    noticed = sum(not proof.why_not for proof in proofs)
    print(f"{noticed} of {len(proofs)} planted bugs were noticed")
    return 0 if noticed == len(proofs) else 1


def prove_all(bugs: Sequence[PlantedBug], root: Path, jobs: int) -> list[Proof]:
    copies: queue.Queue[Copy] = queue.Queue()

    def prove_one(bug: PlantedBug) -> Proof:
        copy = copies.get()
        try:
            return prove_in(copy, bug, root)
        finally:
            copies.put(copy)

    with ExitStack() as stack:
        for _ in range(jobs):
            copies.put(stack.enter_context(copied(root)))
        return list(stack.enter_context(ThreadPoolExecutor(jobs)).map(prove_one, bugs))


def show_misplaced(bugs: Sequence[PlantedBug], root: Path) -> int:
    complaints = misplaced(bugs, root)
    print(
        "\n".join([*complaints, f"{len(bugs) - len(complaints)} of {len(bugs)} find their place"])
    )
    return 1 if complaints else 0


def misplaced(bugs: Sequence[PlantedBug], root: Path = ROOT) -> list[str]:
    """Bugs whose edits or tests are not there any more, a line each."""
    complaints = []
    for bug in bugs:
        try:
            planted(bug, root)
            if absent := [name for name in bug.red if not _is_there(name, root)]:
                raise Unproven(f"{bug.name}: there is no {', '.join(absent)}")
        except Unproven as reason:
            complaints.append(str(reason))
    return complaints


def _is_there(test: str, root: Path) -> bool:
    """Whether the file is there, and a function of that name in it."""
    file, *names = test.split("[")[0].split("::")
    path = root / file
    if not names:
        return path.exists()
    return path.is_file() and re.search(rf"\bdef {names[-1]}\(", path.read_text()) is not None


def _row(proof: Proof) -> tuple[str, ...]:
    red = f"UNPROVEN: {proof.why_not}" if proof.why_not else proof.red_by
    seeds = "" if proof.seeds_to_detection is None else str(proof.seeds_to_detection)
    return proof.bug.name, proof.bug.rule, red, seeds, f"{proof.cpu_s:.1f}"


def print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


if __name__ == "__main__":
    sys.exit(main())
