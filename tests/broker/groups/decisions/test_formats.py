"""Records of `__consumer_offsets`: the very bytes, whatever version, and what makes no sense."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.groups.decisions.batches import decode_changes, encode_changes
from broker.groups.decisions.formats import (
    CommittedOffset,
    GroupKey,
    GroupValue,
    MemberValue,
    OffsetKey,
    decode_group,
    decode_key,
    decode_offset,
    encode_group,
    encode_key,
    encode_offset,
)
from broker.groups.decisions.newer_records import newer_key
from broker.groups.decisions.outcome import Change
from logstore.errors import Corrupt
from logstore.records.encode import encode_batch, records_of

TOPIC_ID = bytes(range(16))

OFFSET_KEY = bytes.fromhex("0001 0001 67 0005 746f706963 00000007")
GROUP_KEY = bytes.fromhex("0002 0001 67")
OFFSET_V4 = bytes.fromhex(
    "0004 0000000000000005 00000003 02 6d 0000018bcfe56800 01 00 10 "
    "000102030405060708090a0b0c0d0e0f"
)
OFFSET_V4_WITHOUT_ID = bytes.fromhex("0004 0000000000000005 ffffffff 01 0000018bcfe56800 00")
OFFSET_V1 = bytes.fromhex("0001 0000000000000005 0001 6d 0000018bcfe56800 0000018bcfe56801")
OFFSET_V0 = bytes.fromhex("0000 0000000000000005 0001 6d 0000018bcfe56800")
OFFSET_V3 = bytes.fromhex("0003 0000000000000005 00000003 0001 6d 0000018bcfe56800")
GROUP_V3 = bytes.fromhex(
    "0003 0008 636f6e73756d6572 00000004 0005 72616e6765 0002 6d31 0000018bcfe56800 00000001 "
    "0002 6d31 0001 69 0001 63 0002 2f68 0000ea60 00002710 00000002 7375 00000003 617373"
)
GROUP_V3_EMPTY = bytes.fromhex(
    "0003 0008 636f6e73756d6572 00000005 ffff ffff 0000018bcfe56800 00000000"
)
GROUP_V0 = bytes.fromhex(
    "0000 0008 636f6e73756d6572 00000004 0005 72616e6765 0002 6d31 00000001 "
    "0002 6d31 0001 63 0002 2f68 00002710 00000002 7375 00000003 617373"
)
GROUP_V4 = bytes.fromhex(
    "0004 09 636f6e73756d6572 00000004 06 72616e6765 03 6d31 0000018bcfe56800 02 "
    "03 6d31 02 69 02 63 03 2f68 0000ea60 00002710 03 7375 04 617373 00 00"
)
MS = 1_700_000_000_000
MEMBER = MemberValue("m1", "i", "c", "/h", 60_000, 10_000, b"su", b"ass")
GROUP = GroupValue("consumer", 4, "range", "m1", MS, [MEMBER])

texts = st.text(max_size=20)
numbers = st.integers(-(2**31), 2**31 - 1)
times = st.integers(0, 2**62)
offset_keys = st.builds(OffsetKey, texts, texts, numbers)
offsets = st.builds(
    CommittedOffset, times, numbers, texts, times, st.just(-1), st.binary(min_size=16, max_size=16)
)
members = st.builds(
    MemberValue,
    texts,
    st.none() | texts,
    texts,
    texts,
    st.integers(0, 2**31 - 1),
    numbers,
    st.binary(max_size=40),
    st.binary(max_size=40),
)
group_values = st.builds(
    GroupValue,
    texts,
    numbers,
    st.none() | texts,
    st.none() | texts,
    times,
    st.lists(members, max_size=4),
)
changes = st.tuples(offset_keys, st.none() | offsets) | st.tuples(
    st.builds(GroupKey, texts), st.none() | group_values
)


def test_keys_are_these_bytes() -> None:
    assert encode_key(OffsetKey("g", "topic", 7)) == OFFSET_KEY
    assert encode_key(GroupKey("g")) == GROUP_KEY


def test_offsets_are_these_bytes() -> None:
    assert encode_offset(CommittedOffset(5, 3, "m", MS, -1, TOPIC_ID)) == OFFSET_V4
    assert encode_offset(CommittedOffset(5, -1, "", MS)) == OFFSET_V4_WITHOUT_ID
    assert encode_offset(CommittedOffset(5, 3, "m", MS, MS + 1, TOPIC_ID)) == OFFSET_V1


def test_groups_are_these_bytes() -> None:
    assert encode_group(GROUP) == GROUP_V3
    assert encode_group(GroupValue("consumer", 5, None, None, MS, ())) == GROUP_V3_EMPTY


@pytest.mark.parametrize(
    ("data", "epoch", "expire_ms"),
    [(OFFSET_V0, -1, -1), (OFFSET_V1, -1, MS + 1), (OFFSET_V3, 3, -1)],
    ids=["0", "1", "3"],
)
def test_older_versions_of_an_offset_are_read(data: bytes, epoch: int, expire_ms: int) -> None:
    assert decode_offset(data) == CommittedOffset(5, epoch, "m", MS, expire_ms)


def test_other_versions_of_a_group_are_read() -> None:
    assert decode_group(GROUP_V4) == GROUP
    old = decode_group(GROUP_V0)
    assert (old.state_ms, old.generation) == (-1, 4)
    assert old.members == [MemberValue("m1", None, "c", "/h", 10_000, 10_000, b"su", b"ass")]


def test_an_older_key_of_an_offset_is_read() -> None:
    assert decode_key(b"\0\0" + OFFSET_KEY[2:]) == OffsetKey("g", "topic", 7)


@pytest.mark.parametrize("version", [3, 8, 16, 0x7FFF])
def test_keys_of_other_kinds_are_none_of_ours(version: int) -> None:
    assert decode_key(version.to_bytes(2, "big") + b"whatever") is None


@given(change=changes)
def test_a_change_survives_its_batch(change: Change) -> None:
    (read,) = decode_changes(encode_changes([change], now_ms=MS))

    assert read == change


@given(data=st.binary(max_size=60) | st.binary(max_size=60).map(lambda tail: b"\0\4" + tail))
def test_bytes_that_make_no_sense_are_corrupt_and_nothing_else(data: bytes) -> None:
    for decode in (decode_key, decode_offset, decode_group):
        with suppress(Corrupt):
            decode(data)


@pytest.mark.parametrize("data", [OFFSET_V4, GROUP_V3, GROUP_V4, GROUP_V0], ids=len)
def test_a_value_that_was_cut_off_is_corrupt(data: bytes) -> None:
    decode = decode_offset if data is OFFSET_V4 else decode_group
    for end in range(len(data)):
        with pytest.raises(Corrupt):
            decode(data[:end])


def test_a_record_that_makes_no_sense_does_not_hide_the_next() -> None:
    good = (encode_key(GroupKey("g")), encode_group(GROUP))
    records = [(None, b"x"), (b"?", b"x"), (OFFSET_KEY, b"?"), (b"\0\x10abc", b"x"), good]
    batch = encode_batch(records_of(records, timestamp=MS))

    found = list(decode_changes(batch))
    assert found == [None] * 3 + [newer_key(b"\0\x10abc", b"x"), (GroupKey("g"), GROUP)]
    assert newer_key(b"\0\x10abc", b"x").group is None
