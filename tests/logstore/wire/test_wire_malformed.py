"""Bytes that are wrong, cut short or hostile: one error, little memory, nothing else."""

import contextlib
import random
import tracemalloc
from typing import Any

import pytest

from logstore.errors import Invalid
from logstore.wire.framing.apis import decode_request_header
from logstore.wire.messages import api_versions, fetch, produce
from logstore.wire.primitives import (
    Buffer,
    DecodeError,
    decode_varint,
    encode_varint,
)
from tools.full_wire import APIS, Api

MUTANTS_PER_MESSAGE = 140
ORIGINALS = 14
HUGE = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x7f", b"\xff\xff", b"\x80"]
CASES = [
    pytest.param(api, role, id=f"{api.module}-{role}")
    for api in APIS.values()
    for role in ("request", "response")
]


@pytest.mark.slow
@pytest.mark.parametrize(("api", "role"), CASES)
def test_mutated_messages_decode_or_raise_decode_error(oracle_of: Any, api: Api, role: str) -> None:
    rng = random.Random(f"mutants of {api.module} {role}")
    decode = api.decode_request if role == "request" else api.decode_response
    refused = 0
    for version in range(api.version_min, api.version_max + 1):
        oracle = oracle_of(api.module, role, version)
        originals = [oracle.encode(oracle.random(rng)) for _ in range(ORIGINALS)]
        for i in range(MUTANTS_PER_MESSAGE):
            mutant = mutate(originals[i % ORIGINALS], rng)
            try:
                decode(version, memoryview(mutant))
            except DecodeError:
                refused += 1
    assert refused > 0


@pytest.mark.parametrize(("api", "role"), CASES)
def test_every_proper_prefix_of_a_message_is_refused(oracle_of: Any, api: Api, role: str) -> None:
    decode = api.decode_request if role == "request" else api.decode_response
    for version in (api.version_min, api.version_max):
        oracle = oracle_of(api.module, role, version)
        whole = min((oracle.encode(oracle.random(random.Random(i))) for i in range(9)), key=len)
        for stop in range(min(len(whole), 400)):
            with pytest.raises(DecodeError):
                decode(version, memoryview(whole)[:stop])


def test_mutated_request_headers_decode_or_raise_decode_error() -> None:
    rng = random.Random(7)
    whole = bytes.fromhex("001200030000000900047465737401070161") + b"\0" * 4
    for _ in range(2000):
        with contextlib.suppress(DecodeError):
            decode_request_header(memoryview(mutate(whole, rng)))


@pytest.mark.parametrize("version", [1, 12])
def test_a_huge_array_count_in_a_small_frame_is_refused_without_memory(version: int) -> None:
    body = b"\x7f\xff\xff\xff" if version == 1 else b"\xff\xff\xff\xff\x07"
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match="count=2147483"):
            APIS[3].decode_request(version, body + bytes(16))
        assert tracemalloc.get_traced_memory()[1] < 256 * 1024
    finally:
        tracemalloc.stop()


def test_the_callers_bound_on_array_counts_holds_at_every_depth() -> None:
    partitions = [produce.PartitionProduceData(i) for i in range(5)]
    request = produce.ProduceRequest(
        topic_data=[produce.TopicProduceData("t", partition_data=partitions)]
    )
    body = _encode(APIS[0], 9, request)
    assert APIS[0].decode_request(9, body, count_max=5) == request
    with pytest.raises(DecodeError, match="count=5 max=4"):
        APIS[0].decode_request(9, body, count_max=4)


def test_the_error_names_the_field_and_the_byte() -> None:
    request = fetch.FetchRequest(
        topics=[fetch.FetchTopic("logs", partitions=[fetch.FetchPartition()])]
    )
    body = _encode(APIS[1], 4, request)
    with pytest.raises(DecodeError, match=r"FetchRequest\.replica_id at byte=0: .* too early"):
        APIS[1].decode_request(4, body[:20])
    with pytest.raises(DecodeError, match=r"array of FetchPartition at byte=31: count=1 .*left=15"):
        APIS[1].decode_request(4, body[:-1])
    with pytest.raises(DecodeError, match=r"FetchTopic\.topic at byte=23: length=99 bytes_left=24"):
        APIS[1].decode_request(4, body[:21] + b"\0\x63" + body[23:])
    with pytest.raises(DecodeError, match=r"FetchTopic\.topic at byte=23: .*utf-8"):
        APIS[1].decode_request(4, body.replace(b"logs", b"lo\xffs"))
    with pytest.raises(DecodeError, match=r"FetchTopic\.topic at byte=23: null"):
        APIS[1].decode_request(4, body[:21] + b"\xff\xff" + body[23:])


def test_unknown_tags_are_skipped_in_every_struct() -> None:
    unknown = b"\x02" + b"\x63\x02ab" + b"\x9a\x05\x00"  # tag 99 with two bytes, tag 666 with none
    body = b"\0\xff\xff\0\0\0\0\2\5logs\2\0\0\0\1\3xy"
    request = produce.ProduceRequest(
        acks=-1,
        topic_data=[
            produce.TopicProduceData(
                "logs", partition_data=[produce.PartitionProduceData(1, b"xy")]
            )
        ],
    )
    assert APIS[0].decode_request(9, body + b"\0" * 3) == request
    assert APIS[0].decode_request(9, body + unknown * 3) == request


def test_unknown_tags_are_skipped_beside_known_ones() -> None:
    response = api_versions.ApiVersionsResponse(finalized_features_epoch=5)
    body = _encode(APIS[18], 3, response)
    assert body.endswith(b"\1\1\x08" + (5).to_bytes(8, "big"))
    with_unknown = body[:-11] + b"\2" + body[-10:] + b"\x63\x02ab"
    assert APIS[18].decode_response(3, with_unknown) == response


@pytest.mark.parametrize("size", [7, 9])
def test_a_known_tag_that_does_not_end_where_it_says_is_refused(size: int) -> None:
    body = _encode(APIS[18], 3, api_versions.ApiVersionsResponse(finalized_features_epoch=5))
    with pytest.raises(DecodeError, match="ApiVersionsResponse"):
        APIS[18].decode_response(3, body[:-9] + bytes([size]) + body[-8:] + b"\0")


def test_trailing_bytes_are_ignored_in_requests_and_refused_in_responses() -> None:
    request = api_versions.ApiVersionsRequest("a", "b")
    assert APIS[18].decode_request(3, _encode(APIS[18], 3, request) + b"more") == request
    parts: list[Buffer] = []
    APIS[18].encode_response(0, api_versions.ApiVersionsResponse(), parts)
    with pytest.raises(DecodeError, match="ends at byte=6 of 7"):
        APIS[18].decode_response(0, b"".join(parts) + b"x")


@pytest.mark.parametrize("value", [0, 1, 127, 128, 16383, 16384, 2097151, 2097152, 2**32 - 1])
def test_varints_round_trip(value: int) -> None:
    encoded = encode_varint(value)
    assert decode_varint(b"\xff" + encoded, 1) == (value, 1 + len(encoded))


@pytest.mark.parametrize("data", ["808080808000", "ffffffffff01", "ffffffff1f"])
def test_varints_above_five_bytes_or_32_bits_are_refused(data: str) -> None:
    with pytest.raises(ValueError, match="varint"):
        decode_varint(bytes.fromhex(data), 0)


def test_decode_error_is_an_invalid_argument() -> None:
    assert issubclass(DecodeError, Invalid)


def _encode(api: Api, version: int, message: Any) -> bytes:
    parts: list[Buffer] = []
    request = type(message).__name__.endswith("Request")
    (api.encode_request if request else api.encode_response)(version, message, parts)
    return b"".join(parts)


def mutate(whole: bytes, rng: random.Random) -> bytes:
    data = bytearray(whole)
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = (
            rng.randrange(min(len(data), 64) + 1)
            if rng.random() < 0.7
            else rng.randrange(len(data) + 1)
        )
        action = rng.randrange(6)
        if action == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif action == 1 and at < len(data):
            data[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        elif action == 2:
            del data[at:]
        elif action == 3:
            del data[at : at + rng.randrange(1, 5)]
        elif action == 4:
            data[at:at] = rng.randbytes(rng.randrange(1, 5))
        else:
            huge = rng.choice(HUGE)
            data[at : at + len(huge)] = huge
    return bytes(data)
