"""Planted bugs still written as unified diffs: NAME.patch, a header, an empty line, the diff."""

import os
import re
import subprocess
from pathlib import Path

from tools import planted_bug
from tools.planted_bug import Edit, PlantedBug, Unproven


def read_bugs(folder: Path) -> list[PlantedBug]:
    return planted_bug.read_bugs(folder) + [
        read_diff(path) for path in sorted(folder.glob("*.patch"))
    ]


def read_diff(path: Path) -> PlantedBug:
    head, _, diff = path.read_text().partition("\n\n")
    fields = dict(re.findall(r"^(\w+):[ \t]*(.*\S)", head, re.MULTILINE))
    missing = [key for key in ("name", "rule", "red") if key not in fields]
    if missing:
        raise Unproven(f"{path.name}: the header lacks {', '.join(missing)}")
    changed = re.findall(r"^\+\+\+ b/(\S+)\.py$", diff, re.MULTILINE)
    edits = tuple(Edit(name.replace("/", "."), None, "", "") for name in changed)
    seeds = int(fields["seeds"]) if "seeds" in fields else None
    return PlantedBug(path, path.stem, fields["rule"], tuple(fields["red"].split()), seeds, edits)


def plant(bug: PlantedBug, copy: Path) -> None:
    if bug.path.suffix != ".patch":
        planted_bug.plant(bug, copy)
        return
    command = ["git", "apply", "--whitespace=nowarn", str(bug.path.resolve())]
    # No repository above may decide what the paths in the patch are relative to.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(copy.parent)}
    answer = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    if answer.returncode:
        raise Unproven(f"{bug.name}: the patch no longer applies: plant it again, as .toml")
