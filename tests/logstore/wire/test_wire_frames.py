"""Frames byte by byte, written down by hand from the protocol guide, and headers."""

import pytest

from logstore.errors import Invalid
from logstore.wire.framing.apis import (
    decode_request_header,
    decode_response_header,
    encode_frame,
    encode_request_frame,
)
from logstore.wire.messages import api_versions, fetch, init_producer_id, produce
from logstore.wire.primitives import DecodeError
from tools.full_wire import APIS

API_VERSIONS_V3_REQUEST = bytes.fromhex(
    "0000001c"  # size 28
    "0012 0003 00000009"  # key 18, version 3, correlation id 9
    "0004 74657374"  # client id "test", never compact
    "00"  # header tags
    "04 666f6f"  # client software name "foo"
    "06 312e302e30"  # client software version "1.0.0"
    "01 2a 00"  # body tags: one, tag 42, no bytes
)
PRODUCE_V9_REQUEST = bytes.fromhex(
    "0000002b"  # size 43
    "0000 0009 00000001"  # key 0, version 9, correlation id 1
    "ffff 00"  # no client id, header tags
    "00"  # transactional id null
    "ffff 00007530"  # acks -1, timeout 30,000 ms
    "02"  # one topic
    "05 6c6f6773"  # "logs"
    "03"  # two partitions
    "00000000 05 deadbeef 00"  # partition 0, 4 bytes of records, tags
    "00000001 00 00"  # partition 1, null records, tags
    "00"  # topic tags
    "00"  # request tags
)
FETCH_V4_RESPONSE = bytes.fromhex(
    "00000037"  # size 55
    "00000007"  # correlation id 7
    "00000000"  # throttle time
    "00000001"  # one topic
    "0004 6c6f6773"  # "logs"
    "00000001"  # one partition
    "00000002 0000"  # partition 2, no error
    "0000000000000064 0000000000000064"  # high watermark, last stable offset 100
    "ffffffff"  # aborted transactions null
    "00000003 abcdef"  # 3 bytes of records
)


def test_golden_api_versions_request_with_an_unknown_tag() -> None:
    frame = memoryview(API_VERSIONS_V3_REQUEST)[4:]
    key, version, correlation_id, client_id, at = decode_request_header(frame)
    assert (key, version, correlation_id, client_id) == (18, 3, 9, "test")
    request = APIS[18].decode_request(version, frame, at)
    assert request == api_versions.ApiVersionsRequest("foo", "1.0.0")
    ours = b"".join(encode_request_frame(9, APIS[18], 3, "test", request))
    assert ours == bytes([0, 0, 0, 26]) + API_VERSIONS_V3_REQUEST[4:-3] + b"\0"


def test_golden_produce_request() -> None:
    frame = memoryview(PRODUCE_V9_REQUEST)[4:]
    key, version, _, client_id, at = decode_request_header(frame)
    assert (key, version, client_id) == (0, 9, None)
    request = APIS[0].decode_request(version, frame, at)
    partitions = [
        produce.PartitionProduceData(0, bytes.fromhex("deadbeef")),
        produce.PartitionProduceData(1, None),
    ]
    topic = produce.TopicProduceData("logs", partition_data=partitions)
    assert request == produce.ProduceRequest(None, -1, 30_000, [topic])
    assert b"".join(encode_request_frame(1, APIS[0], 9, None, request)) == PRODUCE_V9_REQUEST


def test_golden_fetch_response() -> None:
    partition = fetch.PartitionData(
        partition_index=2,
        high_watermark=100,
        last_stable_offset=100,
        aborted_transactions=None,
        records=bytes.fromhex("abcdef"),
    )
    topic = fetch.FetchableTopicResponse(topic="logs", partitions=[partition])
    response = fetch.FetchResponse(responses=[topic])
    assert b"".join(encode_frame(7, APIS[1], 4, response)) == FETCH_V4_RESPONSE
    frame = memoryview(FETCH_V4_RESPONSE)[4:]
    assert decode_response_header(frame, APIS[1], 4) == (7, 4)
    assert APIS[1].decode_response(4, frame, 4) == response


def test_api_versions_response_header_has_no_tags_in_any_version() -> None:
    response = api_versions.ApiVersionsResponse(api_keys=[api_versions.ApiVersion(18, 0, 4)])
    for version in range(5):
        (frame,) = encode_frame(5, APIS[18], version, response)
        assert frame[4:10] == b"\0\0\0\5\0\0"
        view = memoryview(frame)[4:]
        assert decode_response_header(view, APIS[18], version) == (5, 4)
        assert APIS[18].decode_response(version, view, 4) == response


def test_flexible_response_header_has_a_tag_section_that_is_skipped() -> None:
    (frame,) = encode_frame(5, APIS[22], 2, _producer_id())
    assert frame[4:9] == b"\0\0\0\5\0"
    tagged = memoryview(b"\0\0\0\5" + b"\1\x07\2ab" + frame[9:])
    assert decode_response_header(tagged, APIS[22], 2) == (5, 9)
    assert APIS[22].decode_response(2, tagged, 9) == _producer_id()


def test_header_of_an_unknown_key_or_version_can_be_read() -> None:
    unknown_key = bytes.fromhex("03e7 0063 00000001 0001 61")
    assert decode_request_header(memoryview(unknown_key)) == (999, 99, 1, "a", 11)
    newer_version = bytes.fromhex("0012 0063 00000001 0001 61 00")
    assert decode_request_header(memoryview(newer_version)) == (18, 99, 1, "a", 12)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "0012",
        "0012 0003 00000009",
        "0012 0003 00000009 0004 6162",
        "0012 0003 00000009 fffe 00",
        "0012 0003 00000009 0001 ff 00",
        "0012 0003 00000009 ffff",
        "0012 0003 00000009 ffff 01 05 02",
    ],
)
def test_a_malformed_request_header_is_a_decode_error(header: str) -> None:
    with pytest.raises(DecodeError, match="request header"):
        decode_request_header(memoryview(bytes.fromhex(header)))


def test_a_version_without_messages_is_invalid() -> None:
    assert (APIS[0].version_min, APIS[0].version_max) == (3, 13)
    for version in (2, 14, -1):
        with pytest.raises(Invalid, match="no such version"):
            APIS[0].decode_request(version, b"")


def _producer_id() -> object:
    return init_producer_id.InitProducerIdResponse(0, 0, 1 << 40, 3)
