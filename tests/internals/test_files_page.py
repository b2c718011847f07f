"""ARCHITECTURE.md and the pages of docs/internals name files and functions that are there."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PACKAGES = ("logstore", "broker", "spark_source")
DECIDING = (
    "broker/cluster/decisions",
    "broker/groups/decisions",
    "logstore/protocol",
    "spark_source/planning",
)
DECIDE_NOTHING = {
    "broker/cluster/decisions/controller_state.py": "values between two looks",
    "broker/cluster/decisions/view.py": "values of one look",
    "broker/groups/decisions/describe.py": "what clients are shown",
    "broker/groups/decisions/fields.py": "bytes",
    "broker/groups/decisions/formats.py": "bytes",
    "broker/groups/decisions/limits.py": "values of settings",
    "broker/groups/decisions/outcome.py": "values that decisions return",
    "logstore/protocol/sinks/staged_reads.py": "reads of objects that sinks stage",
}
FILE = re.compile(r"`([\w./*]+\.py)`")
ROOM = re.compile(r"`([\w/]+/)`")


def test_each_row_of_the_list_names_files_of_its_room() -> None:
    package, missing = "", []
    for line in (DOCS / "internals/files.md").read_text("utf-8").splitlines():
        if heading := re.match(r"## `(\w+)`", line):
            package = heading[1]
        elif line.startswith("## "):
            package = ""
        elif package and line.startswith("| `"):
            first = line.split("|")[1]
            room = ROOM.search(first)
            folder = ROOT / package / (room[1] if room else "")
            missing += [f"{folder}: {name}" for name in FILE.findall(line) if not has(folder, name)]

    assert not missing


def has(folder: Path, name: str) -> bool:
    return any(folder.glob(name)) or any(folder.glob(f"*/{name}"))


def test_short_paths_of_the_architecture_lead_to_one_place() -> None:
    assert not [name for name in paths_in("ARCHITECTURE.md") if not is_somewhere(name)]


def test_safety_rules_name_code_and_tests_from_the_root() -> None:
    assert not [name for name in paths_in("internals/safety.md") if not (ROOT / name).is_file()]


def paths_in(page: str) -> set[str]:
    return {name for name in FILE.findall((DOCS / page).read_text("utf-8")) if "/" in name}


def is_somewhere(name: str) -> bool:
    if any(ROOT.glob(name)):
        return True
    return any(any((ROOT / top).glob(f"**/{name}")) for top in (*PACKAGES, "tests"))


def test_each_answer_names_functions_of_its_files() -> None:
    page = (DOCS / "internals/where.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and "`" in line]

    assert len(rows) > 50
    assert not [row for row in rows if len(row.split("|")) != 4], "a question and an answer"
    assert not [complaint for row in rows for complaint in wrong_names(row.split("|")[2])]
    assert "(internals/where.md)" in (DOCS / "ARCHITECTURE.md").read_text("utf-8")


def test_each_module_of_a_deciding_room_is_named_where_it_is_asked_for() -> None:
    """Or said to decide nothing."""
    page = (DOCS / "internals/where.md").read_text("utf-8")
    named = set(FILE.findall(page))
    modules = {
        str(path.relative_to(ROOT))
        for room in DECIDING
        for path in (ROOT / room).glob("**/*.py")
        if path.stem != "__init__"
    }

    assert modules - named == DECIDE_NOTHING.keys()


def wrong_names(answer: str) -> Iterator[str]:
    """A name belongs to the file that stands before it."""
    known, path = frozenset[str](), ""
    for name in re.findall(r"`([^`]+)`", answer):
        if name.endswith(".py"):
            path = name
            if not (ROOT / path).is_file():
                yield f"no such file: {path}"
                return
            known = names_in(ast.parse((ROOT / path).read_text("utf-8")))
        elif re.fullmatch(r"[\w.]+", name) and name not in known:
            yield f"{path or 'no file'}: {name}"


def names_in(node: ast.Module | ast.ClassDef, prefix: str = "") -> frozenset[str]:
    """Functions, classes and constants; those of a class with its name before them."""
    names = set[str]()
    for statement in node.body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(prefix + name)
            case ast.ClassDef(name=name):
                names |= {prefix + name, *names_in(statement, f"{prefix}{name}.")}
            case ast.Assign(targets=targets):
                bound = (n for target in targets for n in ast.walk(target))
                names |= {prefix + n.id for n in bound if isinstance(n, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(prefix + name)
            case _:
                pass
    return frozenset(names)
