"""Each rule of protocol-rules.md names tests that are there, or says why it has none."""

import ast
import re
from collections.abc import Callable
from functools import cache

import pytest

from tests.internals.test_files_page import DOCS, ROOT, names_in

PAGE = DOCS / "internals/protocol-rules.md"
GROUPS = "WMPIFOGQ"
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
WITHOUT = ("no test", "not served: ", "differs: ")


def rules() -> list[tuple[str, str, str]]:
    """Id, rule, and what holds it, in the order of the page."""
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in PAGE.read_text("utf-8").splitlines()
        if re.match(r"\| *[A-Z]\d", line)
    ]
    return [(number, rule, held_by) for number, rule, held_by in rows]


def test_ids_of_a_group_count_from_1_in_the_order_of_the_page() -> None:
    ids = [number for number, _, _ in rules()]
    counts = {group: sum(number[0] == group for number in ids) for group in GROUPS}

    assert all(counts.values())
    assert ids == [f"{group}{n + 1}" for group in GROUPS for n in range(counts[group])]


@pytest.mark.parametrize("row", rules(), ids=lambda row: row[0])
def test_a_rule_names_tests_that_exist_or_says_that_it_has_none(row: tuple[str, str, str]) -> None:
    _, rule, held_by = row
    named = TEST.findall(held_by)

    assert rule.endswith(".")
    assert bool(named) != held_by.startswith(WITHOUT)
    assert held_by.count("::") == len(named), "a test is named as `tests/path.py::test_name`"
    assert not [f"{path}::{name}" for path, name in named if name not in names_of_tests(path)]


def test_rules_without_a_test_are_listed(tell: Callable[[str], None]) -> None:
    kept_otherwise = [number for number, _, held_by in rules() if "differs: " in held_by]
    without = [number for number, _, held_by in rules() if held_by.startswith(WITHOUT)]

    assert len(without) <= len(rules()) // 20, "a new rule comes with its test"
    tell(
        f"{len(rules())} rules of Kafka's protocol; without a test: {' '.join(without)}; "
        f"kept otherwise: {' '.join(kept_otherwise)}"
    )


def test_the_architecture_leads_to_the_page() -> None:
    assert "(internals/protocol-rules.md)" in (DOCS / "ARCHITECTURE.md").read_text("utf-8")


@cache
def names_of_tests(path: str) -> frozenset[str]:
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    names = names_in(ast.parse(file.read_text("utf-8")))
    return frozenset(name for name in names if name.startswith("test_"))
