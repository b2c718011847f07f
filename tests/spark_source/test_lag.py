"""Lag per partition from what Spark tells of a query, and as metrics."""

import json
import urllib.request
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from spark_source.lag import LagListener, PartitionLag, lags_of, metrics_text

ID = "0" * 32


def offsets(**topics: Mapping[int, int]) -> str:
    return json.dumps(
        {
            "topics": {
                name: {"id": ID, "next": {str(n): offset for n, offset in of.items()}}
                for name, of in topics.items()
            },
            "version": 1,
        }
    )


def source(end: str | None, latest: str | None) -> Any:
    return SimpleNamespace(endOffset=end, latestOffset=latest)


def event(sources: Sequence[Any], name: str | None = "totals", query: str = "q1") -> Any:
    return SimpleNamespace(progress=SimpleNamespace(id=query, name=name, sources=sources))


BEHIND = source(offsets(orders={0: 5, 1: 7}), offsets(orders={0: 9, 1: 7, 2: 4}))


def test_lag_is_what_lies_between_a_query_and_the_end_of_the_log() -> None:
    lags = list(lags_of("totals", [BEHIND]))

    assert lags == [
        PartitionLag("totals", "orders", 0, 5, 9),
        PartitionLag("totals", "orders", 1, 7, 7),
    ]
    assert [one.lag for one in lags] == [4, 0]


@pytest.mark.parametrize("text", [None, "", "null", "17", "[]", '{"orders":{"0":5}}', "{"])
def test_sources_of_other_formats_have_no_lag(text: str | None) -> None:
    assert list(lags_of("totals", [source(text, text)])) == []


def test_an_end_seen_before_the_query_passed_it_is_no_lag() -> None:
    old = source(offsets(orders={0: 5}), offsets(orders={0: 3}))
    (lag,) = lags_of("totals", [old])

    assert lag.lag == 0


def test_a_listener_keeps_the_last_of_each_query_until_it_ends() -> None:
    published: list[Sequence[PartitionLag]] = []
    listener = LagListener(published.append)
    listener.onQueryProgress(event([source(offsets(orders={0: 1}), offsets(orders={0: 9}))]))
    listener.onQueryProgress(event([BEHIND]))
    listener.onQueryProgress(event([BEHIND], name=None, query="q2"))

    assert [(one.query, one.partition, one.lag) for one in listener.lags()] == [
        ("q2", 0, 4),
        ("q2", 1, 0),
        ("totals", 0, 4),
        ("totals", 1, 0),
    ]
    assert [len(lags) for lags in published] == [1, 2, 2]
    listener.onQueryTerminated(SimpleNamespace(id="q1"))
    assert {one.query for one in listener.lags()} == {"q2"}


def test_metrics_are_prometheus_text_with_awkward_names_escaped() -> None:
    text = metrics_text([PartitionLag('a "b"\\\n', "orders", 3, 5, 9)])

    labels = '{query="a \\"b\\"\\\\\\n",topic="orders",partition="3"}'
    assert text.splitlines() == [
        "# HELP logstore_spark_lag_offsets offsets in the log that the query has not processed",
        "# TYPE logstore_spark_lag_offsets gauge",
        f"logstore_spark_lag_offsets{labels} 4",
        "# HELP logstore_spark_next_offset first offset that the query has not processed",
        "# TYPE logstore_spark_next_offset gauge",
        f"logstore_spark_next_offset{labels} 5",
    ]


def test_metrics_are_served_until_closed() -> None:
    listener = LagListener()
    listener.onQueryProgress(event([BEHIND]))
    host, port = listener.serve("127.0.0.1", 0)
    try:
        with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=30) as answer:
            assert answer.headers["content-type"].startswith("text/plain")
            assert answer.read().decode() == listener.metrics()
    finally:
        listener.close()
    listener.close()
