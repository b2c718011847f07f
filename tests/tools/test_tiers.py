"""What `make test` counts, and which Java is new enough for Spark."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.java import major_version, why_no_java
from tools.tiers import (
    SIMULATED,
    TESTS,
    TIERS,
    Counts,
    Tier,
    begun,
    failures_in,
    marked_files,
    read_report,
    run_tiers,
)

REPORT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites name="pytest tests">
  <testsuite name="pytest" tests="9" failures="2" errors="1" skipped="2" time="1.0"/>
</testsuites>
"""


def test_a_report_is_summed_by_outcome(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)

    assert read_report(tmp_path / "report.xml") == Counts(passed=4, failed=3, skipped=2)


def test_failures_are_named_each_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "def test_good(): pass\ndef test_bad(): raise ValueError('first line\\nsecond line')\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["--junitxml=report.xml", "test_some.py"]
    subprocess.run(command, cwd=tmp_path, stdout=subprocess.DEVNULL, check=False)

    (line,) = failures_in(tmp_path / "report.xml")
    assert line.startswith(
        "FAILED     test_some.py::test_bad: ValueError: first line | second line"
    )


def test_without_a_report_nothing_has_passed(tmp_path: Path) -> None:
    assert read_report(tmp_path / "report.xml") == Counts()


def test_folders_that_the_slow_tier_leaves_out_are_those_of_tiers_beside_it() -> None:
    (slow,) = (tier for tier in TIERS if tier.name == "slow")
    beside = [tier for tier in TIERS if tier.beside]
    assert {tier.arguments[:2] for tier in beside} == {("-m", "slow")}
    assert sorted(slow.left_out) == sorted(name for tier in beside for name in tier.arguments[2:])


@pytest.mark.parametrize("mark", [tier.mark for tier in TIERS if tier.mark])
def test_a_tier_collects_each_file_that_has_its_mark(mark: str) -> None:
    """No other module gives one, but those for the tests of their folder, and none is given by
    another name. Seeds that are slow by number are simulations, which are a tier of their own.
    """
    files = set(marked_files(mark))
    given = re.compile(rf"mark\.{mark}\b")
    giving = {path for path in TESTS.rglob("*.py") if given.search(path.read_text())}
    giving -= {TESTS / "conftest.py"}
    by_folder = {path for path in giving if path.name == "conftest.py"}
    named = giving - by_folder | {one for path in by_folder for one in files_in(path.parent)}
    assert files
    assert files == set(map(str, named))


def files_in(folder: Path) -> Iterator[Path]:
    return folder.glob("test_*.py")


def test_seeds_that_are_slow_by_number_are_simulations() -> None:
    by_number = re.compile(r"mark\.seeds\(.*fast=")
    files = [path for path in TESTS.rglob("test_*.py") if by_number.search(path.read_text())]
    assert files
    assert all(any(path.is_relative_to(folder) for folder in SIMULATED) for path in files)


@pytest.mark.slow
def test_a_tier_beside_others_has_the_lowest_priority_and_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tools.tiers.REPORTS", tmp_path)
    options = "def pytest_addoption(parser): parser.addoption('--first-daily-seed')\n"
    (tmp_path / "conftest.py").write_text(options)
    test = tmp_path / "test_priority.py"
    test.write_text(
        "import os\n"
        "def test_low(): assert os.nice(0) == 19\n"
        "def test_failing(): assert os.nice(0) == 20\n"
    )
    lines: list[str] = []
    arguments = ("-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(test))
    with begun(Tier("some", arguments), 2, 0, (), beside=True) as run:
        assert run.counts(lines) == Counts(passed=1, failed=1)

    assert lines[0].startswith("some       1 passed, 1 failed in ")
    assert lines[0].endswith(" s beside others")
    assert "assert 19 == 20" in capfd.readouterr().out


@pytest.mark.slow
def test_a_tier_beside_the_others_begins_before_the_checks_and_is_counted_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    options = "def pytest_addoption(parser): parser.addoption('--first-daily-seed')\n"
    (tmp_path / "conftest.py").write_text(options)
    (tmp_path / "test_one.py").write_text("def test_one(): pass\n")
    arguments = ("-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path))
    tiers = (
        Tier("first", arguments, beside=True),
        Tier("absent", arguments, why_not=lambda: "no such thing"),
        Tier("second", arguments),
    )
    monkeypatch.setattr("tools.tiers.REPORTS", tmp_path)
    monkeypatch.setattr("tools.tiers.TIERS", tiers)
    monkeypatch.setattr("tools.tiers.CHECKS", ("help",))

    ran = run_tiers(None, 2, 0)

    assert ran.total == Counts(passed=2)
    assert ran.not_run == ["absent"]
    assert [line.split()[0] for line in ran.lines] == ["absent", "help", "second", "first"]
    printed = capfd.readouterr().out
    assert printed.index("--- first: beside") < printed.index("help       ok")


def test_the_sum_of_counts_always_names_passed_and_failed() -> None:
    assert str(Counts(passed=3) + Counts(passed=4)) == "7 passed, 0 failed"
    assert str(Counts(failed=1, skipped=2)) == "0 passed, 1 failed, 2 skipped"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "25" 2025-09-16', 25),
        ('java version "1.8.0_391"', 8),
        ("no version at all", None),
    ],
)
def test_the_version_of_java_is_read(text: str, version: int | None) -> None:
    assert major_version(text) == version


@pytest.mark.parametrize(
    ("answer", "ending"),
    [('openjdk version "17.0.1"', None), ('java version "1.8.0_391"', "is version 8")],
)
def test_an_old_java_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, ending: str | None
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    reason = why_no_java()

    if ending is None:
        assert reason is None
    else:
        assert reason is not None
        assert "openjdk-17-jre-headless" in reason
        assert reason.endswith(ending)


def test_no_java_is_said_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert "no java found" in (why_no_java() or "")
