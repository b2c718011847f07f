"""Figures of `logstore top`: from pages of metrics, as Prometheus would compute them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from broker.http.decisions.catalogue import GROUP_LAG, HIGH_WATERMARK, LOG_START
from broker.http.exposition import render
from broker.http.reading import Reading
from logstore.cli.decisions.metrics_page import parse_metrics
from logstore.cli.decisions.printable import printable
from logstore.cli.decisions.top_figures import BrokerLook, ClusterFigures, cluster_figures, quantile
from logstore.cli.top.text import summary_line, tables_of
from logstore.histogram import Histogram

SERVING = 'logstore_broker_state{state="serving"} 1\nlogstore_ready 1\n'


def page(*lines: str, epoch: int = 1) -> str:
    return "\n".join([SERVING, f"logstore_broker_epoch {epoch}", *lines, ""])


def looks(at_s: float, **texts: str | None) -> dict[str, BrokerLook]:
    """By address; None: it does not answer."""
    return {
        address: BrokerLook(at_s, None, "no answer")
        if text is None
        else BrokerLook(at_s, parse_metrics(text))
        for address, text in texts.items()
    }


def figures(
    before: dict[str, BrokerLook], after: dict[str, BrokerLook], rows: int = 10
) -> ClusterFigures:
    return cluster_figures(before, after, rows)


NAMES = st.text(st.characters(codec="utf-8"), max_size=20)


@given(st.dictionaries(st.tuples(NAMES, NAMES, NAMES), st.integers(0, 1 << 50), max_size=5))
def test_a_page_is_read_as_prometheus_reads_it(lags: dict[tuple[str, str, str], int]) -> None:
    readings = [Reading(GROUP_LAG, labels, value) for labels, value in lags.items()]
    text = render([GROUP_LAG, HIGH_WATERMARK, LOG_START], readings).decode()
    expected = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    found = {
        (name, frozenset(labels)): value
        for name, series in parse_metrics(text).series.items()
        for labels, value in series.items()
    }
    assert found == expected


def test_lines_of_another_form_are_passed_over() -> None:
    found = parse_metrics('a 1\nb{c="d"} 2 1700000000\n<html>\ne{f="g"} x\n# TYPE a gauge\n')
    assert found.series == {"a": {(): 1.0}}


def test_a_rate_is_what_a_counter_rose_by_in_the_seconds_between() -> None:
    name = 'logstore_topic_bytes_in_total{topic="t"}'
    found = figures(looks(10, a=page(f"{name} 100")), looks(14, a=page(f"{name} 500")))
    assert found.brokers[0].bytes_in_rate == found.topics[0].bytes_in_rate == 100
    assert found.bytes_in_rate == 100


def test_a_counter_of_a_broker_that_started_again_has_no_rate_yet() -> None:
    name = 'logstore_topic_bytes_in_total{topic="t"}'
    before, after = page(f"{name} 900"), page(f"{name} 1000", epoch=2)
    found = figures(looks(10, a=before), looks(12, a=after))
    assert found.brokers[0].bytes_in_rate is None
    assert found.bytes_in_rate is None
    assert found.topics == []


def test_a_broker_that_does_not_answer_is_gone_and_comes_first() -> None:
    busy = page('logstore_topic_bytes_in_total{topic="t"} 9')
    found = figures(looks(1, a=busy, b=busy), looks(2, a=busy, b=None))
    assert [(one.address, one.state) for one in found.brokers] == [("b", "gone"), ("a", "serving")]
    assert found.alive == 1
    assert "1 gone!" in summary_line(found)


def test_connections_that_a_quota_holds_are_counted_where_there_are_any() -> None:
    held, calm = page("logstore_connections_throttled 3"), page("logstore_connections_throttled 0")
    found = figures(looks(1, a=held, b=held), looks(2, a=held, b=held))
    assert found.throttled == 6
    assert "6 throttled by quotas!" in summary_line(found)
    assert "throttled" not in summary_line(figures(looks(1, a=calm), looks(2, a=calm)))


def test_one_that_serves_and_is_not_ready_is_said_to_be_that() -> None:
    text = 'logstore_broker_state{state="serving"} 1\nlogstore_ready 0\n'
    assert figures(looks(1, a=text), looks(2, a=text)).brokers[0].state == "not ready"


def test_the_lag_is_ends_of_leaders_less_offsets_of_coordinators() -> None:
    leader = page(
        'logstore_partition_high_watermark{topic="t",partition="0"} 50',
        'logstore_partition_high_watermark{topic="t",partition="1"} 7',
    )
    coordinator = page(
        'logstore_group_members{group="g"} 2',
        'logstore_group_committed_offset{group="g",topic="t",partition="0"} 20',
        'logstore_group_committed_offset{group="g",topic="t",partition="1"} 9',
        'logstore_group_committed_offset{group="g",topic="unknown",partition="0"} 9',
        'logstore_group_lag_records{group="other",topic="t",partition="other"} 5',
        'logstore_group_lag_records{group="g",topic="t",partition="0"} 12',
    )
    found = figures({}, looks(1, a=leader, b=coordinator))
    assert [(one.group, one.lag, one.members, one.topics) for one in found.groups] == [
        ("g", 30, 2, 2),
        ("other", 5, 0, 1),
    ]
    assert found.lag == 35


@given(st.lists(st.floats(0.0001, 40), min_size=1, max_size=50), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_quantile_is_in_the_bucket_of_the_value_at_its_rank(
    values: list[float], q: float
) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    counts, total = {}, 0
    for bound, count in zip([*histogram.bounds, float("inf")], histogram.counts, strict=True):
        total += count
        counts[bound] = float(total)
    found = quantile(q, counts)
    assert found is not None
    exact = sorted(values)[max(0, -(-int(q * 100) * len(values) // 100) - 1)]
    high = next(bound for bound in [*histogram.bounds, float("inf")] if exact <= bound)
    low = max((bound for bound in histogram.bounds if bound < exact), default=0.0)
    assert low <= found <= high


def test_without_a_request_there_is_no_quantile() -> None:
    assert quantile(0.5, {}) is None
    assert quantile(0.5, {1.0: 0.0, float("inf"): 0.0}) is None


def test_only_as_many_rows_as_asked_for_and_sums_over_all() -> None:
    names = [f'logstore_topic_bytes_in_total{{topic="t{n}"}}' for n in range(30)]
    before = page(*(f"{name} 0" for name in names))
    after = page(*(f"{name} {n}" for n, name in enumerate(names)))
    found = figures(looks(0, a=before), looks(1, a=after), rows=3)
    assert [one.topic for one in found.topics] == ["t29", "t28", "t27"]
    assert found.bytes_in_rate == sum(range(30))


@pytest.mark.parametrize("name", ["\x1b[2J", "a\nb", "\x9b31m", "\u202egnp", "\x00"])
def test_names_of_clients_do_not_steer_a_terminal(name: str) -> None:
    text = page(
        f'logstore_group_committed_offset{{group="{name}",topic="t",partition="0"}} 1'.replace(
            "\n", "\\n"
        )
    )
    found = figures({}, looks(1, a=text))
    cells = [cell for table in tables_of(found) for row in table.rows for cell in row]
    assert found.groups[0].group == name
    assert printable(name) in cells
    assert all(cell.isprintable() for cell in cells)
