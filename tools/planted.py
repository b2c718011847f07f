"""Plants known bugs and demands that a test goes red for each: are the safety tests any good?

Planted bugs are files tests/planted/NAME.toml; `tools/planted_bug.py` draws one.

Each bug gets a copy of the tree. There the tests named must pass (once, for bugs that name the
same), each edit must find its place, and then a test must fail: an error while collecting or
setting up proves nothing.
"""

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.planted_bug import PlantedBug, Unproven, plant, planted, read_bugs
from tools.tree import tree_files

ROOT = Path(__file__).resolve().parent.parent
FOLDER = "tests/planted"
COMPILED = ROOT / "build/pycache"
"""Where Python keeps the modules that it compiled: the Makefile's PYTHONPYCACHEPREFIX."""
RUN_TIMEOUT_S = 900


@dataclass(frozen=True, slots=True)
class Proof:
    bug: PlantedBug
    red_by: str  # the first test that failed; empty if none did
    why_not: str  # empty if proven
    seeds_to_detection: int | None
    seconds: float


def prove(bug: PlantedBug, root: Path = ROOT, known_green: Path | None = None) -> Proof:
    """Plant one bug in a copy of the tree at `root`, and see who notices.

    `known_green` is a folder for notes of what passes in that tree, which several processes share.
    """
    began = time.perf_counter()
    red_by, why_not, seeds = "", "", None
    with tempfile.TemporaryDirectory(prefix="planted-") as scratch:
        copy = Path(scratch).resolve() / "tree"
        try:
            copy_tree(root, copy)
            with compiled_once(root, copy):
                check_imports_come_from(copy, bug.packages)
                expect_green_once(bug, copy, known_green or Path(scratch))
                plant(bug, copy)
                date_later(root, copy)
                red_by, seeds = expect_red(bug, copy)
        except Unproven as reason:
            why_not = str(reason)
    return Proof(bug, red_by, why_not, seeds, time.perf_counter() - began)


def copy_tree(root: Path, copy: Path) -> None:
    for name in tree_files(root):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, copy / name)


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


def date_later(root: Path, copy: Path) -> None:
    """Gives each changed file another time, in whole seconds: Python compares no finer ones."""
    for name in tree_files(root):
        before, now = (root / name).stat(), (copy / name).stat()
        if now.st_mtime_ns != before.st_mtime_ns:
            os.utime(copy / name, (before.st_mtime + 10, before.st_mtime + 10))


def check_imports_come_from(copy: Path, packages: Sequence[str]) -> None:
    """An editable install of the real tree must not be what the tests test."""
    for package in packages:
        answer = run(copy, "-c", f"import {package}; print({package}.__file__)")
        if answer.returncode or not Path(answer.stdout.strip()).is_relative_to(copy):
            raise Unproven(f"{package} is not imported from the copy: {last_line(answer)}")


def expect_green_once(bug: PlantedBug, copy: Path, notes: Path) -> None:
    """As `expect_green`, unless the same tests passed before; concurrent callers wait."""
    name = hashlib.blake2b(repr((bug.red, bug.seeds)).encode(), digest_size=16).hexdigest()
    note = notes / f"{name}.green"
    with note.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not note.exists():
            expect_green(bug, copy)
            note.touch()


def expect_green(bug: PlantedBug, copy: Path) -> None:
    answer = run_tests(bug, copy, green=True)
    if answer.returncode != 0:
        raise Unproven(f"without the bug the tests do not pass: {last_line(answer)}")


def expect_red(bug: PlantedBug, copy: Path) -> tuple[str, int | None]:
    """The test that failed first, and after how many seeds if it says so."""
    answer = run_tests(bug, copy)
    if answer.returncode == 0:
        raise Unproven("no test noticed")
    failed = first_failure(copy)
    if answer.returncode != 1 or not failed:
        raise Unproven(f"no test failed, the run did: {last_line(answer)}")
    found = re.search(r"^seeds to detection: (\d+)", answer.stdout, re.MULTILINE)
    return failed, int(found[1]) if found else None


def first_failure(copy: Path) -> str:
    """Name of the first test whose own body failed, as pytest's JUnit report has it."""
    for case in ElementTree.parse(copy / "report.xml").getroot().iter("testcase"):
        if case.find("failure") is not None:
            return case.get("name", "")
    return ""


def run_tests(
    bug: PlantedBug, copy: Path, *, green: bool = False
) -> subprocess.CompletedProcess[str]:
    options = ["-x", "-q", "-m", "", "-p", "no:cacheprovider", "--junitxml=report.xml"]
    seeds = [f"--seeds={bug.seeds}"] if bug.seeds is not None else []
    return run(copy, "-m", "pytest", *options, *seeds, *bug.red, green=green)


def run(copy: Path, *arguments: str, green: bool = False) -> subprocess.CompletedProcess[str]:
    """`green`: the copy is as the tree is, so what is compiled now serves all copies."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        "PYTHONPATH": str(copy),
        "PYTHONPYCACHEPREFIX": str(COMPILED),
        "PYTHONDONTWRITEBYTECODE": "" if green else "1",
        "CI": "true",  # the same examples each time
    }
    command = [sys.executable, *arguments]
    try:
        return subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=RUN_TIMEOUT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired as expired:
        raise Unproven(f"still running after {expired.timeout:.0f} s") from expired


def last_line(answer: subprocess.CompletedProcess[str]) -> str:
    lines = (answer.stdout + answer.stderr).strip().splitlines()
    return lines[-1] if lines else f"exit code {answer.returncode}"


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
    with (
        tempfile.TemporaryDirectory(prefix="planted-green-") as notes,
        ThreadPoolExecutor(options.jobs) as pool,
    ):
        proofs = list(pool.map(lambda bug: prove(bug, root, Path(notes)), chosen))
    print_table([("bug", "rule", "red by", "seeds", "seconds"), *map(_row, proofs)])
    noticed = sum(not proof.why_not for proof in proofs)
    print(f"{noticed} of {len(proofs)} planted bugs were noticed")
    return 0 if noticed == len(proofs) else 1


def show_misplaced(bugs: Sequence[PlantedBug], root: Path) -> int:
    complaints = misplaced(bugs, root)
    print(
        "\n".join([*complaints, f"{len(bugs) - len(complaints)} of {len(bugs)} find their place"])
    )
    return 1 if complaints else 0


def misplaced(bugs: Sequence[PlantedBug], root: Path = ROOT) -> list[str]:
    """What is wrong with those whose edits or tests are not there any more, a line each."""
    complaints = []
    for bug in bugs:
        try:
            planted(bug, root)
            if absent := [name for name in bug.red if not (root / name.split("::")[0]).exists()]:
                raise Unproven(f"{bug.name}: there is no {', '.join(absent)}")
        except Unproven as reason:
            complaints.append(str(reason))
    return complaints


def _row(proof: Proof) -> tuple[str, ...]:
    red = f"UNPROVEN: {proof.why_not}" if proof.why_not else proof.red_by
    seeds = "" if proof.seeds_to_detection is None else str(proof.seeds_to_detection)
    return proof.bug.name, proof.bug.rule, red, seeds, f"{proof.seconds:.1f}"


def print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


if __name__ == "__main__":
    sys.exit(main())
