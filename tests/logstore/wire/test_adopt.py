"""The adopt request: bytes written down by hand, round trips, and bytes that are wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.wire.adopt import (
    ADOPT_KEY,
    AdoptOutcome,
    AdoptPartition,
    AdoptPartitionResult,
    AdoptRequest,
    AdoptResponse,
    AdoptTopic,
    AdoptTopicResult,
)
from logstore.wire.framing.apis import (
    PRIVATE_APIS,
    decode_request_header,
    decode_response_header,
    encode_frame,
    encode_request_frame,
)
from logstore.wire.primitives import DecodeError

ADOPT = PRIVATE_APIS[ADOPT_KEY]
REQUEST = bytes.fromhex(
    "00000045"  # size 69
    "4c01 0000 00000007 0002 6d65"  # key, version, correlation id 7, client id "me"
    "0003 6b6579"  # manifest key "key"
    "01010101010101010101010101010101 00007530"  # its nonce, timeout 30,000 ms
    "00000001 02020202020202020202020202020202"  # one topic
    "00000001 00000003 00000005"  # one partition: 3, leader epoch 5
)
RESPONSE = bytes.fromhex(
    "0000003f"  # size 63
    "00000007"  # correlation id 7
    "00000001 02020202020202020202020202020202"  # one topic
    "00000001 00000003 04"  # one partition: 3, invalid
    "ffffffffffffffff ffffffffffffffff"  # no offsets
    "ffffffffffffffff 0004 676f6e65"  # no progress, "gone"
)

i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
ids = st.binary(min_size=16, max_size=16)
requests = st.builds(
    AdoptRequest,
    st.text(max_size=40),
    ids,
    i32,
    st.lists(
        st.builds(AdoptTopic, ids, st.lists(st.builds(AdoptPartition, i32, i32), max_size=3)),
        max_size=3,
    ),
)
results = st.builds(
    AdoptPartitionResult,
    i32,
    st.sampled_from(AdoptOutcome),
    i64,
    i64,
    st.none() | st.text(max_size=20),
    i64,
)
responses = st.builds(
    AdoptResponse,
    st.lists(st.builds(AdoptTopicResult, ids, st.lists(results, max_size=3)), max_size=3),
)


def the_request() -> AdoptRequest:
    topic = AdoptTopic(b"\2" * 16, [AdoptPartition(3, 5)])
    return AdoptRequest("key", b"\1" * 16, 30_000, [topic])


def the_response() -> AdoptResponse:
    refused = AdoptPartitionResult(3, AdoptOutcome.INVALID, message="gone")
    return AdoptResponse([AdoptTopicResult(b"\2" * 16, [refused])])


def test_a_request_is_these_bytes() -> None:
    assert b"".join(encode_request_frame(7, ADOPT, 0, "me", the_request())) == REQUEST
    key, version, correlation_id, client_id, at = decode_request_header(memoryview(REQUEST)[4:])
    assert (key, version, correlation_id, client_id) == (ADOPT_KEY, 0, 7, "me")
    assert ADOPT.decode_request(0, memoryview(REQUEST)[4:], at) == the_request()


def test_a_response_is_these_bytes() -> None:
    assert b"".join(encode_frame(7, ADOPT, 0, the_response())) == RESPONSE
    frame = memoryview(RESPONSE)[4:]
    assert decode_response_header(frame, ADOPT, 0) == (7, 4)
    assert ADOPT.decode_response(0, frame, 4) == the_response()


@given(requests)
def test_a_request_that_is_encoded_is_decoded(request: AdoptRequest) -> None:
    frame = memoryview(b"".join(encode_request_frame(1, ADOPT, 0, None, request)))[4:]
    *_, at = decode_request_header(frame)
    assert ADOPT.decode_request(0, frame, at) == request


@given(responses)
def test_a_response_that_is_encoded_is_decoded(response: AdoptResponse) -> None:
    frame = memoryview(b"".join(encode_frame(1, ADOPT, 0, response)))[4:]
    assert ADOPT.decode_response(0, frame, 4) == response


def test_every_proper_prefix_is_refused() -> None:
    *_, at = decode_request_header(memoryview(REQUEST)[4:])
    for stop in range(at, len(REQUEST) - 4):
        with pytest.raises(DecodeError):
            ADOPT.decode_request(0, memoryview(REQUEST)[4 : 4 + stop], at)
    for stop in range(4, len(RESPONSE) - 4):
        with pytest.raises(DecodeError):
            ADOPT.decode_response(0, memoryview(RESPONSE)[4 : 4 + stop], 4)


@given(requests, st.data())
def test_bytes_that_are_wrong_are_read_as_something_or_refused(
    request: AdoptRequest, data: st.DataObject
) -> None:
    frame = bytearray(b"".join(encode_request_frame(1, ADOPT, 0, None, request))[4:])
    *_, at = decode_request_header(memoryview(frame))
    place = data.draw(st.integers(at, len(frame) - 1))
    frame[place] ^= data.draw(st.integers(1, 255))
    try:
        ADOPT.decode_request(0, memoryview(bytes(frame)), at)
    except DecodeError as error:
        assert "AdoptRequest" in str(error) or "Adopt" in str(error)


def test_a_long_message_is_cut_where_a_character_ends() -> None:
    result = AdoptPartitionResult(0, AdoptOutcome.INVALID, message="ö" * 5_000)
    response = AdoptResponse([AdoptTopicResult(b"\2" * 16, [result])])
    frame = memoryview(b"".join(encode_frame(1, ADOPT, 0, response)))[4:]
    decoded = ADOPT.decode_response(0, frame, 4)
    assert decoded.topics[0].partitions[0].message == "ö" * 1_000
