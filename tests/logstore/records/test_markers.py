"""Transaction markers are Kafka's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from logstore.records.batch import CorruptBatch, check_batch
from logstore.records.decode import decode_records
from logstore.records.markers import (
    ABORT,
    COMMIT,
    decode_control_key,
    decode_coordinator_epoch,
    encode_marker,
)


@given(
    st.booleans(), st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1)
)
def test_a_marker_says_who_ended_what_and_how(
    commit: bool, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> None:
    batch = encode_marker(
        commit=commit,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=123,
        base_offset=77,
        leader_epoch=4,
    )
    (record,) = decode_records(batch, max_bytes=1000)

    assert decode_control_key(record.key) == (0, COMMIT if commit else ABORT)
    assert decode_coordinator_epoch(record.value) == coordinator_epoch
    (theirs,) = DefaultRecordBatch(batch)
    assert (theirs.offset, theirs.timestamp, theirs.commit) == (77, 123, commit)


def test_a_marker_has_a_producer_but_no_sequence() -> None:
    """As in Kafka; so a marker never passes for what a producer sent."""
    batch = encode_marker(
        commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=0
    )

    with pytest.raises(Exception, match="bad producer fields"):
        check_batch(memoryview(batch), 0, len(batch))


def test_a_later_version_of_a_marker_is_read() -> None:
    assert decode_control_key(bytes.fromhex("0001 0001 00")) == (1, COMMIT)
    assert decode_coordinator_epoch(bytes.fromhex("0001 00000007 00")) == 7


@pytest.mark.parametrize("short", [None, b"", b"\0\0\0"])
def test_a_control_record_that_is_too_short_is_refused(short: bytes | None) -> None:
    with pytest.raises(CorruptBatch):
        decode_control_key(short)
    with pytest.raises(CorruptBatch):
        decode_coordinator_epoch(short)
