"""Sums of what fault proxies and brokers counted: each request once, faults apart from answers."""

from pathlib import Path

from logstore.prices import CREATE_DOLLARS, GET_DOLLARS, cost_of
from tests.scenarios.harness.counts import Metered, ProxyCounts

COUNTED = ProxyCounts(
    {
        "PUT 200": 90,
        "PUT 412": 2,
        "PUT 500": 3,
        "PUT applied-500": 4,
        "PUT late": 1,
        "GET 206": 50,
        "GET 404": 5,
        "GET cut": 1,
        "late 412": 1,
    }
)


def test_each_request_counts_once_whatever_became_of_it() -> None:
    assert COUNTED.requests() == {"PUT": 100, "GET": 56}


def test_a_played_fault_is_no_answer_of_the_server() -> None:
    assert COUNTED.faults() == {"500": 3, "applied-500": 4, "late": 1, "cut": 1}
    assert COUNTED.answers() == {"PUT 200": 90, "PUT 412": 2, "GET 206": 50, "GET 404": 5}
    assert COUNTED.late() == {"late 412": 1}


def test_the_meters_of_all_lives_are_added_and_priced(tmp_path: Path) -> None:
    (tmp_path / "counts-1.json").write_text('{"create": [10, 1000, 1], "get": [2, 5, 0]}')
    (tmp_path / "counts-2.json").write_text('{"create": [5, 500, 0], "get_range": [3, 9, 1]}')
    metered = Metered.read(sorted(tmp_path.glob("counts-*.json")))

    assert (metered.requests().creates, metered.requests().gets) == (15, 5)
    assert cost_of(metered.requests()) == 15 * CREATE_DOLLARS + 5 * GET_DOLLARS
    assert str(metered).startswith("create 15 (1 failed, 0.0 MB), get 2")
