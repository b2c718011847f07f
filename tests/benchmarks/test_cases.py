"""Every case of the harness can be asked for, and says who is measured."""

import importlib

import pytest

from benchmarks.__main__ import CASES
from benchmarks.load import LARGE, Load, chosen
from benchmarks.options import Options


@pytest.mark.parametrize("name", CASES)
def test_every_case_names_its_contenders_ours_without_a_peer_too(name: str) -> None:
    case = importlib.import_module(f"benchmarks.cases.{name}")

    alone = case.contenders(Options(has_peer=False))
    beside = case.contenders(Options())

    assert alone
    assert all(map(callable, beside.values()))
    assert not [one for one in alone if "kafka" in one]
    assert list(beside)[: len(alone)] == list(alone)


def test_the_registry_is_asked_for_each_number_of_partitions() -> None:
    case = importlib.import_module("benchmarks.cases.registry")

    found = case.contenders(Options(partitions=(10, 10_000)))

    assert list(found) == ["10 part.", "10,000 part."]


def test_loads_are_chosen_by_name_and_scaled() -> None:
    loads = {"1KB": Load(1000, 1_000_000, LARGE), "100B": Load(100, 500_000, {})}

    assert chosen(loads, Options(load="100B", scale=0.5)) == {"100B": Load(100, 250_000, {})}
    assert chosen(loads, Options()) == loads
