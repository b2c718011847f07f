"""What a write says when it is planned."""

import pytest

from spark_source.sink.plan import warn_once


def test_a_stream_whose_batches_are_planned_one_by_one_warns_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for text in ("columns: offset", "columns: offset", "columns: timestampType"):
        warn_once(text)

    assert [record.message for record in caplog.records] == [
        "columns: offset",
        "columns: timestampType",
    ]
