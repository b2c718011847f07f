"""docs/internals/files.md, ARCHITECTURE.md and the pages of protocols name files that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PACKAGES = ("logstore", "broker", "spark_source")
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


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "internals/safety.md"])
def test_short_paths_of_a_page_lead_to_one_place(page: str) -> None:
    names = set(FILE.findall((DOCS / page).read_text("utf-8")))

    assert not [name for name in names if "/" in name and not is_somewhere(name)]


def is_somewhere(name: str) -> bool:
    if any(ROOT.glob(name)):
        return True
    return any(any((ROOT / top).glob(f"**/{name}")) for top in (*PACKAGES, "tests"))
