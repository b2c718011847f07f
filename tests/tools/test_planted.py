"""The tool that plants bugs, on a package of four lines: only a failed test is a proof."""

from pathlib import Path

import pytest

from tools.planted import CaseId, copied, main, passed_tests, prove, prove_in
from tools.planted_bug import read_bug

ADD = '"""Sums."""\n\n\ndef add(a: int, b: int) -> int:\n    return a + b\n'
TEST_ADD = """from adding.add import add

def test_small():
    assert add(1, 0) == 1

def test_sums():
    print()
    print("seeds to detection: 7")
    assert add(2, 3) == 5
"""
EDIT = """
[[edit]]
module = "adding.add"
old = "return a + b"
new = "return {}"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in {
        "adding/__init__.py": "",
        "adding/add.py": ADD,
        "tests/test_add.py": TEST_ADD,
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = ["-s"]\n',
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "tests/planted").mkdir()
    return tmp_path


def plant(root: Path, body: str, *, red: str = "tests/test_add.py", name: str = "bug") -> Path:
    path = root / f"tests/planted/{name}.toml"
    path.write_text(f'rule = "0, sums"\nred = ["{red}"]\n{EDIT.format(body)}')
    return path


def fail_always(root: Path) -> None:
    (root / "tests/test_add.py").write_text(TEST_ADD.replace("== 5", "== 6"))


@pytest.mark.slow
def test_a_bug_that_a_test_notices_is_proven(root: Path) -> None:
    proof = prove(read_bug(plant(root, "a - b")), root)

    assert (proof.why_not, proof.red_by, proof.seeds_to_detection) == ("", "test_sums", 7)
    assert (root / "adding/add.py").read_text() == ADD, "the tree itself is untouched"


@pytest.mark.slow
def test_a_bug_that_no_test_notices_is_unproven(root: Path) -> None:
    assert prove(read_bug(plant(root, "b + a")), root).why_not == "no test noticed"


@pytest.mark.slow
def test_a_bug_that_breaks_the_import_is_unproven(root: Path) -> None:
    path = plant(root, "")
    path.write_text(path.read_text().replace("return a + b", "int:").replace("return ", "absent:"))

    assert "the run did" in prove(read_bug(path), root).why_not


@pytest.mark.slow
def test_a_bug_whose_place_is_gone_is_unproven(root: Path) -> None:
    bug = read_bug(plant(root, "a - b"))
    (root / "adding/add.py").write_text(ADD.replace("a + b", "b + a"))

    assert "plant the bug again" in prove(bug, root).why_not


@pytest.mark.slow
def test_tests_that_fail_without_the_bug_prove_nothing(root: Path) -> None:
    bug = read_bug(plant(root, "a - b"))
    fail_always(root)

    assert "without the bug" in prove(bug, root).why_not


@pytest.mark.slow
def test_a_test_that_is_known_to_pass_is_not_run_again_and_one_copy_serves_all_bugs(
    root: Path,
) -> None:
    bug = read_bug(plant(root, "a - b"))
    fail_always(root)
    with copied(root) as copy:
        assert "without the bug" in prove_in(copy, bug, root).why_not
        assert prove_in(copy, bug, root, {CaseId("tests.test_add", "test_sums")}).why_not == ""
        assert (copy.path / "adding/add.py").read_text() == ADD


def test_a_report_says_which_tests_passed(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    cases = [
        f'<testcase classname="tests.test_x" name="{name}">{inside}</testcase>'
        for name, inside in {
            "test_passed": "",
            "test_told": "<properties/>",
            "test_failed": "<failure/>",
            "test_skipped": "<skipped/>",
        }.items()
    ]
    report.write_text(f"<testsuites>{''.join(cases)}</testsuites>")

    assert {test.name for test in passed_tests([report])} == {"test_passed", "test_told"}


@pytest.mark.slow
def test_a_test_that_is_not_there_proves_nothing(root: Path) -> None:
    bug = read_bug(plant(root, "a - b", red="tests/test_add.py::test_gone"))

    assert "the run did" in prove(bug, root).why_not


@pytest.mark.slow
def test_a_run_that_does_not_end_is_killed_and_the_next_bug_has_its_own_run(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = read_bug(plant(root, "sum(iter(lambda: 0, None))", name="endless"))
    with copied(root) as copy:
        with monkeypatch.context() as context:
            context.setattr("tools.planted.RUN_TIMEOUT_S", 1)
            assert prove_in(copy, endless, root).why_not == "still running after 1 s"
        assert prove_in(copy, read_bug(plant(root, "a - b")), root).why_not == ""


@pytest.mark.slow
def test_the_command_tells_each_bug_and_fails_if_one_is_unproven(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(root, "a - b", name="noticed")
    plant(root, "b + a", name="unnoticed")

    assert main(["--only", "noticed"], root) == 0
    assert main([], root) == 1
    assert "1 of 2 planted bugs were noticed" in capsys.readouterr().out
    assert main(["--list"], root) == 0
    assert "0, sums" in capsys.readouterr().out


def test_the_command_refuses_a_name_that_is_not_there(root: Path) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--only", "absent"], root)
    assert stopped.value.code == 2


def test_the_command_says_which_bugs_no_longer_find_their_place(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(root, "a - b", name="placed")
    plant(root, "a - b", name="untested", red="tests/test_gone.py::test_sums")
    plant(root, "a - b", name="renamed", red="tests/test_add.py::test_gone")
    moved = plant(root, "a - b", name="moved")
    moved.write_text(moved.read_text().replace("adding.add", "adding.sums"))

    assert main(["--check", "--only", "placed"], root) == 0
    assert main(["--check"], root) == 1
    printed = capsys.readouterr().out
    assert "untested: there is no tests/test_gone.py" in printed
    assert "renamed: there is no tests/test_add.py::test_gone" in printed
    assert "moved: there is no module adding.sums" in printed
    assert "1 of 4 find their place" in printed
