"""Every case of the harness can be asked for, and says who is measured."""

import importlib
from contextlib import closing

import pytest

from benchmarks.__main__ import CASES, ON_BUCKET, SHARED, main, parts_of
from benchmarks.cases.spark_read import FULL, LOADS, PART
from benchmarks.contenders import Contenders
from benchmarks.load import LARGE, Load, chosen
from benchmarks.options import Options


@pytest.mark.parametrize("name", CASES)
def test_every_case_names_its_contenders_ours_without_a_peer_too(name: str) -> None:
    alone = first_part(name, Options(has_peer=False))
    beside = first_part(name, Options())

    assert alone
    assert all(map(callable, beside.values()))
    assert not [one for one in alone if "kafka" in one]
    assert list(beside)[: len(alone)] == list(alone)


def first_part(name: str, options: Options) -> Contenders:
    """Before any of its servers has started."""
    with closing(parts_of(name, options)) as parts:
        return next(parts)


def test_a_case_in_parts_has_the_same_contenders_in_each() -> None:
    parts = list(parts_of("spark_read", Options(load="1KB random")))

    assert len(parts) == len([cell for cell in PART if cell.load.startswith("1KB random")])
    assert {tuple(part) for part in parts} == {("logstore", "kafka", "kafka 8 MiB")}


def test_spark_reads_every_load_to_every_sink_that_is_asked_for_in_full() -> None:
    assert set(PART) < set(FULL)
    assert len(set(FULL)) == len(FULL)
    assert {cell.load for cell in FULL} == set(LOADS)
    assert len(list(parts_of("spark_read", Options(is_full=True)))) == len(FULL)


def test_the_registry_is_asked_for_each_number_of_partitions() -> None:
    case = importlib.import_module("benchmarks.cases.registry")

    found = case.contenders(Options(partitions=(10, 10_000)))

    assert list(found) == ["10 part.", "10,000 part."]


@pytest.mark.parametrize(
    "words",
    [
        ["hostile", "--store", "s3"],
        ["produce", "--share", "10"],
        ["--share", "10"],
        ["catch_up", "--share", "0"],
    ],
)
def test_an_option_that_a_case_does_not_take_is_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)


def test_cases_that_take_a_bucket_are_cases() -> None:
    assert set(SHARED) <= set(ON_BUCKET) <= set(CASES)


def test_loads_are_chosen_by_name_and_scaled() -> None:
    loads = {"1KB": Load(1000, 1_000_000, LARGE), "100B": Load(100, 500_000, {})}

    assert chosen(loads, Options(load="100B", scale=0.5)) == {"100B": Load(100, 250_000, {})}
    assert chosen(loads, Options()) == loads


def test_a_load_that_no_case_has_ends_with_the_names_of_those_it_has() -> None:
    with pytest.raises(SystemExit, match="begins with '2KB': 1KB, 100B"):
        chosen({"1KB": Load(1000, 1, {}), "100B": Load(100, 1, {})}, Options(load="2KB"))
