"""A planted bug as it is stored: the rule it breaks, the tests that fail, the edits that plant it.

tests/planted/NAME.toml:

    rule = "1, commit"                    # the safety rule that it breaks
    red = ["tests/…/test_x.py::test_y"]   # files or tests that must go red
    seeds = 200                           # for simulations: how many seeds it may take (optional)
    first_seed = 17                       # the first of them, one that notices (optional)

    [[edit]]
    module = "logstore.protocol.chain.pipeline"
    within = "Pipeline.stored"            # a class or function of the module (optional)
    old = 'while self._stored and self._stored[0] == self.committed_end:'
    new = 'while self._stored:'

`old` occurs exactly once in the module, or in `within` where that is named. White space is not
compared, nor is a comma before a closing bracket: a bug survives a move, a re-indentation and a
re-wrapped line. `new` replaces it; its lines are indented by as much as those of `old` are found
to be. An empty `new` deletes the lines.
"""

import ast
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_KEYS = {"rule", "red", "seeds", "first_seed", "edit"}
_TOKEN = re.compile(r"\w+|[^\w\s]")


class Unproven(Exception):
    """The planted bug proves nothing; the text says why."""


@dataclass(frozen=True, slots=True)
class Edit:
    module: str  # dotted
    within: str | None  # qualified name of a class or function in it
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class PlantedBug:
    path: Path
    name: str
    rule: str
    red: tuple[str, ...]
    seeds: int | None
    first_seed: int
    edits: tuple[Edit, ...]

    @property
    def packages(self) -> tuple[str, ...]:
        """The top packages that it changes."""
        return tuple(sorted({edit.module.split(".")[0] for edit in self.edits}))


def read_bugs(folder: Path) -> list[PlantedBug]:
    if strays := sorted(path.name for path in folder.glob("*.patch")):
        raise Unproven(f"a planted bug is a .toml file (docs/CONTRIBUTING.md): {', '.join(strays)}")
    return [read_bug(path) for path in sorted(folder.glob("*.toml"))]


def read_bug(path: Path) -> PlantedBug:
    try:
        fields = tomllib.loads(path.read_text())
        if lacking := {"rule", "red", "edit"} - fields.keys():
            raise Unproven(f"{path.name} lacks {', '.join(sorted(lacking))}")
        if unknown := fields.keys() - _KEYS:
            raise Unproven(f"{path.name} has unknown keys: {', '.join(sorted(unknown))}")
        edits = tuple(
            Edit(one["module"], one.get("within"), one["old"].strip("\n"), one["new"].strip("\n"))
            for one in fields["edit"]
        )
        if any(edit.module.split(".")[0] == "tests" for edit in edits):
            raise Unproven(f"{path.name}: a planted bug changes production code, and only that")
        return PlantedBug(
            path, path.stem, fields["rule"], tuple(fields["red"]),
            fields.get("seeds"), fields.get("first_seed", 0), edits,
        )  # fmt: skip
    except (tomllib.TOMLDecodeError, KeyError) as reason:
        raise Unproven(f"{path.name} is not a planted bug: {reason!r}") from reason


def plant(bug: PlantedBug, root: Path) -> None:
    """Edit the modules below `root`. Raises Unproven, and changes nothing, if one does not fit."""
    for path, text in planted(bug, root).items():
        path.write_text(text)


def planted(bug: PlantedBug, root: Path) -> dict[Path, str]:
    """The changed modules as the bug makes them, by path. Raises Unproven if one does not fit."""
    changed = {}
    for module in dict.fromkeys(edit.module for edit in bug.edits):
        path = _path_of(module, root)
        if path is None:
            raise Unproven(
                f"{bug.name}: there is no module {module}; name the one that holds it now"
            )
        edits = [edit for edit in bug.edits if edit.module == module]
        try:
            changed[path] = edited(path.read_text(), edits)
            compile(changed[path], str(path), "exec", dont_inherit=True)
        except (Unproven, SyntaxError) as reason:
            raise Unproven(f"{bug.name}: {module}: {reason}") from reason
    return changed


def _path_of(module: str, root: Path) -> Path | None:
    stem = root / module.replace(".", "/")
    found = [path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()]
    return found[0] if found else None


def edited(source: str, edits: Sequence[Edit]) -> str:
    """The source with each edit made. All are looked up in the source as it stands."""
    changes = sorted((_change(source, edit) for edit in edits), reverse=True)
    beyond = len(source)
    for start, end, text in changes:
        if end > beyond:
            raise Unproven("two of its edits overlap: make one of them")
        source, beyond = source[:start] + text + source[end:], start
    return source


def _change(source: str, edit: Edit) -> tuple[int, int, str]:
    """Where the edit is made, [start, end), and the text that comes there."""
    first, beyond = (0, len(source)) if edit.within is None else span_of(source, edit.within)
    found = list(pattern_of(edit.old).finditer(source, first, beyond))
    if len(found) != 1:
        where = f"in {edit.within}" if edit.within else "in the module"
        mend = (
            "plant the bug again" if not found else "name a class or function in `within`, or more"
        )
        raise Unproven(f"`old` occurs {len(found)} times {where}, not once: {mend}: {edit.old!r}")
    start, end = found[0].span()
    line = source.rfind("\n", 0, start) + 1
    indent = len(source[line:]) - len(source[line:].lstrip(" "))
    if source[line:start].strip():
        return start, end, _shifted(edit.new, indent).strip(" ")  # begins within a line
    if not edit.new and (source[end:] + "\n").startswith("\n"):
        return line, end + 1, ""  # whole lines are deleted
    return line, end, _shifted(edit.new, indent - _indent(edit.old))


def span_of(source: str, name: str) -> tuple[int, int]:
    """Characters [start, end) of a class or function; its name is as in `Leader.append`."""
    inside: ast.AST = ast.parse(source)
    for part in name.split("."):
        kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        found = [node for node in ast.walk(inside) if isinstance(node, kinds) and node.name == part]
        if len(found) != 1 or not isinstance(found[0], kinds):
            raise Unproven(
                f"`within` names {name}, and {part} is there {len(found)} times, not once"
            )
        inside = found[0]
    assert isinstance(inside, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    top = min([inside.lineno, *(each.lineno for each in inside.decorator_list)])
    lines = source.splitlines(keepends=True)
    return len("".join(lines[: top - 1])), len("".join(lines[: inside.end_lineno]))


def pattern_of(text: str) -> re.Pattern[str]:
    """Matches the text with any white space, and with or without commas before closing brackets."""
    parts: list[str] = []
    tokens = _TOKEN.findall(text)
    for at, token in enumerate(tokens):
        closes_next = at + 1 < len(tokens) and tokens[at + 1] in ")]}"
        if token == "," and closes_next:
            continue
        if at and re.match(r"\w", token) and re.match(r"\w", tokens[at - 1]):
            parts.append(r"\s+")
        elif at:
            parts.append(r"\s*")
        if token in ")]}":
            parts.append(r"(?:,\s*)?")
        parts.append(re.escape(token))
    before = r"(?<!\w)" if re.match(r"\s*\w", text) else ""
    after = r"(?!\w)" if re.search(r"\w\s*$", text) else ""
    return re.compile(before + "".join(parts) + after)


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip(" "))


def _shifted(text: str, by: int) -> str:
    lines = text.split("\n")
    return "\n".join(
        " " * max(0, _indent(line) + by) + line.lstrip(" ") if line.strip() else ""
        for line in lines
    )
