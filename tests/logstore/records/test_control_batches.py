"""Control batches are Kafka's, and never pass for a producer's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from logstore.records.batch import check_batch
from logstore.records.decode import decode_records
from tests.transaction_markers import encode_marker


@given(
    st.booleans(), st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1)
)
def test_a_transaction_marker_is_decoded_like_any_record(
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
    assert record.key == b"\0\0\0" + bytes([commit])
    (theirs,) = DefaultRecordBatch(batch)
    assert (theirs.offset, theirs.timestamp, theirs.commit) == (77, 123, commit)


def test_a_marker_has_a_producer_but_no_sequence() -> None:
    """As in Kafka; so a marker never passes for a producer's batch."""
    batch = encode_marker(
        commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=0
    )

    with pytest.raises(Exception, match="bad producer fields"):
        check_batch(memoryview(batch), 0, len(batch))
