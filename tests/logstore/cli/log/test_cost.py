"""The calculator gives figures that were published or measured, and grows as the load does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.cli.command import OK, USAGE
from logstore.cli.decisions.cost_model import HOUR_S, MONTH_S, CostLine, Load, cost_lines
from tests.logstore.cli.conftest import Command

IDLE = Load(bytes_in_s=0, requests_in_s=0)


def by_name(load: Load) -> dict[str, CostLine]:
    return {line.what: line for line in cost_lines(load)}


def total(load: Load) -> float:
    return sum(line.dollars for line in cost_lines(load))


def test_idle_brokers_put_nothing_and_cost_what_the_decision_says() -> None:
    lines = by_name(IDLE)
    assert set(lines) == {"registry, reads", "registry, writes"}
    assert lines["registry, reads"].dollars == pytest.approx(3 * (2.30 + 0.09), abs=0.05)
    assert lines["registry, writes"].dollars == pytest.approx(3 * 1.64 + 1.64, abs=0.05)
    followed = by_name(Load(bytes_in_s=0, requests_in_s=0, replicas=3))["followers"]
    assert followed.dollars == pytest.approx(3 * 2 * 1.05, abs=0.01)


def test_a_busy_broker_puts_ten_segments_a_second_whatever_it_is_sent() -> None:
    for megabytes in (1, 5, 79):
        load = Load(bytes_in_s=megabytes * 1e6, requests_in_s=1_000, brokers=1, partitions=5_000)
        line = by_name(load)["segments and checkpoints"]
        assert line.per_month == pytest.approx(10 * MONTH_S, rel=0.02)
        assert line.dollars == pytest.approx(132, rel=0.02)


def test_large_loads_put_by_size_and_rare_ones_by_request() -> None:
    large = Load(bytes_in_s=800 * (1 << 20), requests_in_s=1e5, brokers=4)
    assert by_name(large)["segments and checkpoints"].per_month == pytest.approx(
        100 * MONTH_S, rel=0.02
    )
    rare = Load(bytes_in_s=100, requests_in_s=0.1, brokers=1)
    assert by_name(rare)["segments and checkpoints"].per_month == pytest.approx(
        0.1 * MONTH_S, rel=0.02
    )


def test_storage_is_what_retention_keeps_and_a_table_shortens_segments() -> None:
    load = Load(bytes_in_s=1e6, requests_in_s=100, retention_s=24 * HOUR_S)
    assert by_name(load)["segments, stored"].per_month == 1e6 * 24 * HOUR_S
    tabled = by_name(
        Load(
            bytes_in_s=1e6,
            requests_in_s=100,
            retention_s=24 * HOUR_S,
            table_retention_s=720 * HOUR_S,
        )
    )
    assert tabled["segments, stored"].per_month == 1e6 * 2 * HOUR_S
    assert tabled["tables, stored"].per_month == pytest.approx(1e6 * 0.7 * 720 * HOUR_S)
    assert {"compaction, reads", "tables"} <= set(tabled)


@given(
    st.floats(0, 1e9), st.floats(0, 1e5), st.integers(1, 50), st.integers(1, 5), st.floats(1, 100)
)
def test_more_load_never_costs_less(
    bytes_s: float, requests_s: float, brokers: int, replicas: int, factor: float
) -> None:
    small = Load(bytes_in_s=bytes_s, requests_in_s=requests_s, brokers=brokers, replicas=replicas)
    large = Load(
        bytes_in_s=bytes_s * factor,
        requests_in_s=requests_s * factor,
        brokers=brokers,
        replicas=replicas,
    )
    assert total(small) <= total(large) + 1e-6


def test_the_command_prints_lines_that_add_up(logstore: Command) -> None:
    answer = logstore("cost", "--mb-in", "5", "--replicas", "3", "--table", "720", "--json")
    assert answer.code == OK
    lines = answer.json["lines"]
    assert answer.json["dollars_a_month"] == pytest.approx(sum(one["dollars"] for one in lines))
    text = logstore("cost", "--mb-in", "5")
    assert "total" in text.out
    assert "million PUTs" in text.out


@pytest.mark.parametrize("wrong", ["-1", "much", "nan", "inf"])
def test_a_rate_that_is_none_is_refused(logstore: Command, wrong: str) -> None:
    assert logstore("cost", f"--mb-in={wrong}").code == USAGE
