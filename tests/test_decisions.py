"""The index of decisions names every page."""

import re
from pathlib import Path

DECISIONS = Path(__file__).parent.parent / "docs" / "decisions"


def test_the_index_names_every_decision_once() -> None:
    index = (DECISIONS / "README.md").read_text()
    linked = re.findall(r"\[(\d{4})\]\((\S+\.md)\)", index)
    pages = sorted(path.name for path in DECISIONS.glob("[0-9]*.md"))

    assert sorted(page for _, page in linked) == pages
    assert all(page.startswith(number) for number, page in linked)
