"""What consumers get from a table is what they would have got from the log."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Invalid
from logstore.history.batches import BATCH_COLUMNS, batches_of
from logstore.history.forms.columns import TABLE_COLUMNS
from logstore.records.arrow import decode_to_arrow
from logstore.records.batch import CODECS, Codec, check_batch, check_crc, read_header
from logstore.records.encode import encode_batch, records_of
from tests.logstore.history.tables import NOW_MS, row, rows_of

LIMITS: dict[str, int] = {"rows_max": 1 << 20, "bytes_max": 1 << 28, "payload_bytes_max": 1 << 28}


def decoded(batches: Sequence[bytes]) -> list[dict[str, Any]]:
    for batch in batches:
        check_crc(memoryview(batch), 0, read_header(batch, 0, len(batch)))
    found = decode_to_arrow(batches, start=0, end=2**62, columns=TABLE_COLUMNS, **LIMITS)
    return [one for rows in found for one in rows.to_pylist()]


def batches(rows: Sequence[dict[str, Any]], **options: Any) -> list[bytes]:
    return list(batches_of([rows_of(rows)], **options))


def without_time(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """`timestamp` is made of `timestamp_ms`, and Python has no dates far away."""
    return [{name: value for name, value in one.items() if name != "timestamp"} for one in rows]


def same(batches_: Sequence[bytes], rows: Sequence[dict[str, Any]]) -> bool:
    found = decode_to_arrow(batches_, start=0, end=2**62, columns=BATCH_COLUMNS, **LIMITS)
    return [one for some in found for one in some.to_pylist()] == without_time(rows) or not rows


ODD_ROWS = [
    row(0, key=None, value=None),
    row(1, key=b"", value=b""),
    row(4, value=None),
    row(5, headers=[{"key": "a", "value": b"1"}, {"key": "a", "value": None}]),
    row(9, headers=[{"key": "", "value": b""}], timestamp_ms=NOW_MS - 5000),
    row(2**31 + 9, timestamp_ms=NOW_MS + 10**9),
]


@pytest.mark.parametrize("compression", CODECS)
def test_rows_become_batches_that_decode_to_the_same_rows(compression: Codec) -> None:
    made = batches(ODD_ROWS, compression=compression)
    assert same(made, ODD_ROWS)
    assert {read_header(one, 0, len(one)).compression for one in made} == {compression}


def test_the_default_is_lz4_and_a_mebibyte() -> None:
    rows = [row(one, value=bytes(1000)) for one in range(3000)]
    made = batches(rows)
    headers = [read_header(one, 0, len(one)) for one in made]
    assert {header.compression for header in headers} == {"lz4"}
    assert len(headers) == 3
    assert all(1000 < header.record_count < 1048 for header in headers[:-1])


def test_leader_epochs_and_kinds_of_time_are_never_mixed() -> None:
    rows = [
        *(row(one, leader_epoch=1) for one in range(3)),
        *(row(one, leader_epoch=2) for one in range(3, 5)),
        *(row(one, leader_epoch=2, timestampType=1, timestamp_ms=7) for one in range(5, 8)),
        *(row(one, leader_epoch=2, timestampType=1, timestamp_ms=8) for one in range(8, 9)),
        *(row(one, leader_epoch=1) for one in range(9, 10)),
    ]
    headers = [read_header(one, 0, len(one)) for one in batches(rows)]
    assert same(batches(rows), rows)
    assert [(h.base_offset, h.leader_epoch, h.is_log_append_time) for h in headers] == [
        (0, 1, False),
        (3, 2, False),
        (5, 2, True),
        (8, 2, True),
        (9, 1, False),
    ]


def test_a_raw_batch_is_given_back_as_it_was() -> None:
    bad_name = encode_batch(records_of([(b"k", b"v")] * 4, timestamp=5), base_offset=3)
    raw = dict.fromkeys(TABLE_COLUMNS) | {"offset": 3, "raw_batch": bad_name}
    made = batches([row(0), row(1), raw, row(7), {**raw, "offset": 8}])
    assert [len(made), made[1], made[3]] == [4, bad_name, bad_name]


@pytest.mark.parametrize(
    "times", [[-1, -2, 5], [-(2**63) + 1, 2**63 - 1, -1, 0], [-5, -5], [NOW_MS, -1], [2**62, 3]]
)
@pytest.mark.parametrize("kind", [0, 1])
def test_times_before_1970_and_far_away_are_kept(times: list[int], kind: int) -> None:
    same_kind = {"timestamp": None, "timestampType": kind}
    rows = [row(i, timestamp_ms=time, **same_kind) for i, time in enumerate(times)]
    made = batches(rows)
    assert same(made, rows)
    for one in made:
        check_batch(memoryview(one), 0, len(one))


@pytest.mark.slow
def test_a_huge_record_is_a_batch_of_its_own() -> None:
    rows = [row(0), row(1, value=bytes(40_000_000)), row(2)]
    assert len(batches(rows)) == 3
    assert same(batches(rows), rows)


def test_rows_without_what_batches_need_are_refused() -> None:
    with pytest.raises(Invalid, match="raw_batch"):
        list(batches_of([rows_of([row(0)]).drop_columns(["raw_batch"])]))


def test_no_rows_are_no_batches() -> None:
    assert batches([]) == []
    assert list(batches_of([])) == []


header_lists = st.lists(
    st.builds(
        lambda key, value: {"key": key, "value": value},
        st.text(max_size=3),
        st.none() | st.binary(max_size=3),
    ),
    max_size=3,
)


@given(
    st.lists(
        st.tuples(
            st.integers(1, 3),
            st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(-3, 3),
            st.integers(0, 1),
            st.integers(-1, 2),
            st.none() | st.binary(max_size=5),
            header_lists,
        ),
        max_size=30,
    ),
    st.integers(100, 2000),
)
def test_any_rows_come_back(drawn: list[Any], bytes_max: int) -> None:
    rows, offset = [], 0
    for gap, time, kind, epoch, value, headers in drawn:
        offset += gap
        rows.append(
            row(
                offset,
                timestamp_ms=time,
                timestamp=None,
                timestampType=kind,
                leader_epoch=epoch,
                value=value,
                headers=headers,
            )
        )
    assert same(list(batches_of([rows_of(rows)], "none", bytes_max)), rows)
    assert pa.total_allocated_bytes() >= 0
