"""A test that fails once is noise, one that fails again is a fault, and many are never noise."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.flaky import FAILED_MAX, FLAKY_MAX, flaky_among, may_be_noise, read_ids

ODD = "tests/broker/test_a.py::test_b[1-\\x1b a/b::c]"


def test_what_passes_alone_is_flaky_and_what_fails_again_is_not() -> None:
    failed = ["tests/a.py::test_once", "tests/a.py::test_always"]

    assert flaky_among(failed, lambda one: one.endswith("once")) == failed[:1]


def test_too_many_flaky_ones_are_faults() -> None:
    most = [f"tests/a.py::test_{number}" for number in range(FLAKY_MAX + 1)]

    assert flaky_among(most[:-1], lambda _: True) == most[:-1]
    assert flaky_among(most, lambda _: True) == []


def test_with_many_failures_nothing_is_run_again() -> None:
    asked: list[str] = []

    def passes(one: str) -> bool:
        asked.append(one)
        return True

    assert flaky_among(["tests/a.py::test"] * (FAILED_MAX + 1), passes) == []
    assert asked == []


@pytest.mark.parametrize(
    ("test_id", "may_be"),
    [
        (ODD, True),
        ("tests/simulation/test_cluster.py::test_nothing[seed=3]", False),
        ("tests/model/test_model.py::test_a", False),
        ("tests/planted/test_planted.py::test_a[b]", False),
        ("tests/scenarios/test_kill_series.py::test_a", False),
        ("tests/scenarios/test_alerts.py::test_a", True),
    ],
)
def test_what_plays_seeds_is_never_noise(test_id: str, may_be: bool) -> None:
    assert may_be_noise(test_id) == may_be


@pytest.mark.slow
def test_the_ids_of_failed_tests_and_of_broken_fixtures_are_written(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "@pytest.fixture\ndef broken(): raise ValueError\n"
        "def test_good(): pass\n"
        "@pytest.mark.parametrize('x', ['a b', '[/::]'])\ndef test_bad(x): assert False\n"
        "def test_never(broken): pass\n"
    )
    ids = tmp_path / "ids.json"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "tools.flaky", f"--failed-ids={ids}", f"--rootdir={tmp_path}"]
    subprocess.run([*command, str(tmp_path)], stdout=subprocess.DEVNULL, check=False)

    assert [one.partition("::")[2] for one in read_ids(ids)] == [
        "test_bad[a b]",
        "test_bad[[/::]]",
        "test_never",
    ]


def test_without_a_file_nothing_has_failed(tmp_path: Path) -> None:
    assert read_ids(tmp_path / "none.json") == []
