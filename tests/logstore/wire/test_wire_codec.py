"""The generated codec against kio, byte for byte, for every message and version."""

import dataclasses
import random
from typing import Any

import pytest

from logstore.errors import Invalid
from logstore.wire.framing.apis import (
    decode_request_header,
    decode_response_header,
    encode_frame,
    encode_request_frame,
)
from logstore.wire.messages import fetch, metadata
from logstore.wire.primitives import Buffer
from tools.full_wire import APIS, Api

ROUNDS = 12
METADATA = APIS[3]
CASES = [
    pytest.param(api, role, version, id=f"{api.module}-{role}-v{version}")
    for api in APIS.values()
    for version in range(api.version_min, api.version_max + 1)
    for role in ("request", "response")
]


@pytest.mark.parametrize(("api", "role", "version"), CASES)
def test_every_message_in_every_version_has_the_bytes_kio_gives_it(
    oracle_of: Any, api: Api, role: str, version: int
) -> None:
    oracle = oracle_of(api.module, role, version)
    rng = random.Random(f"{api.module} {role} {version}")
    encode = api.encode_request if role == "request" else api.encode_response
    decode = api.decode_request if role == "request" else api.decode_response
    for _ in range(ROUNDS):
        entity = oracle.random(rng)
        theirs = oracle.encode(entity)
        message = oracle.translate(entity)
        parts: list[Buffer] = []
        encode(version, message, parts)
        ours = b"".join(parts)
        assert ours == theirs
        assert decode(version, memoryview(theirs)) == message
        assert decode(version, bytearray(b"pad") + theirs, 3) == message
        assert oracle.decode(ours) == entity


@pytest.mark.parametrize(("version", "header_version"), [(8, 1), (9, 2)])
def test_request_headers_have_the_bytes_kio_gives_them(
    oracle_of: Any, version: int, header_version: int
) -> None:
    oracle = oracle_of("request_header", "header", header_version)
    rng = random.Random(version)
    for _ in range(ROUNDS):
        entity = dataclasses.replace(
            oracle.random(rng), request_api_key=METADATA.key, request_api_version=version
        )
        number, name, theirs = entity.correlation_id, entity.client_id, oracle.encode(entity)
        frame = b"".join(
            encode_request_frame(number, METADATA, version, name, metadata.MetadataRequest())
        )
        assert frame[4:].startswith(theirs)
        decoded = decode_request_header(memoryview(theirs))
        assert decoded == (METADATA.key, version, number, name, len(theirs))


@pytest.mark.parametrize(("version", "header_version"), [(8, 0), (9, 1)])
def test_response_headers_have_the_bytes_kio_gives_them(
    oracle_of: Any, version: int, header_version: int
) -> None:
    oracle = oracle_of("response_header", "header", header_version)
    rng = random.Random(version)
    for _ in range(ROUNDS):
        entity = oracle.random(rng)
        number, theirs = entity.correlation_id, oracle.encode(entity)
        frame = b"".join(encode_frame(number, METADATA, version, metadata.MetadataResponse()))
        assert frame[4:].startswith(theirs)
        view = memoryview(theirs)
        assert decode_response_header(view, METADATA, version) == (number, len(theirs))


def test_the_versions_are_those_of_apache_kafka_4_1() -> None:
    ranges = {key: (api.version_min, api.version_max) for key, api in APIS.items()}
    assert {key: ranges[key] for key in (0, 1, 2, 3, 10, 18, 19, 20, 22)} == {
        0: (3, 13),
        1: (4, 18),
        2: (1, 11),  # 11: of 4.2
        3: (0, 13),
        10: (0, 6),
        18: (0, 4),
        19: (2, 7),
        20: (1, 6),
        22: (0, 5),
    }


def test_records_decode_to_views_and_large_ones_encode_uncopied() -> None:
    records = bytearray(b"r" * 5000)
    small = b"s" * 100
    message = fetch.FetchResponse(
        responses=[
            fetch.FetchableTopicResponse(
                topic="t",
                partitions=[
                    fetch.PartitionData(partition_index=0, records=small),
                    fetch.PartitionData(partition_index=1, records=memoryview(records)),
                    fetch.PartitionData(partition_index=2, records=b""),
                ],
            )
        ]
    )
    parts = encode_frame(1, APIS[1], 12, message)
    assert len(parts) == 3
    assert parts[1] is message.responses[0].partitions[1].records
    frame = memoryview(b"".join(parts))[4:]
    _, at = decode_response_header(frame, APIS[1], 12)
    decoded = APIS[1].decode_response(12, frame, at)
    assert decoded == message
    views = [partition.records for partition in decoded.responses[0].partitions]
    assert all(isinstance(view, memoryview) and view.obj is frame.obj for view in views)


@pytest.mark.parametrize("sizes", [[3000, 3000], [10, 20], [0], []])
def test_records_in_several_buffers_are_one_record_set_on_the_wire(sizes: list[int]) -> None:
    pieces: list[Buffer] = [bytes([i + 1]) * size for i, size in enumerate(sizes)]

    def frame(records: Any) -> bytes:
        partition = fetch.PartitionData(partition_index=7, records=records)
        topic = fetch.FetchableTopicResponse(topic="t", partitions=[partition])
        return b"".join(encode_frame(1, APIS[1], 4, fetch.FetchResponse(responses=[topic])))

    assert frame(pieces) == frame(b"".join(pieces))


@pytest.mark.parametrize(
    ("version", "null", "empty"), [(4, b"\xff" * 4, bytes(4)), (12, b"\0", b"\1")]
)
def test_null_and_empty_record_sets_differ(version: int, null: bytes, empty: bytes) -> None:
    closing_tags = bytes(3) if version == 12 else b""  # of partition, topic and response
    for records, stored in ((None, null), (b"", empty)):
        topic = fetch.FetchableTopicResponse(partitions=[fetch.PartitionData(records=records)])
        parts: list[Buffer] = []
        APIS[1].encode_response(version, fetch.FetchResponse(responses=[topic]), parts)
        body = b"".join(parts)
        assert body.endswith(b"\xff" * 4 * (version == 12) + stored + closing_tags)
        decoded = APIS[1].decode_response(version, body)
        assert decoded.responses[0].partitions[0].records == records


def test_a_new_message_holds_kafkas_defaults_and_shares_no_list() -> None:
    first, second = metadata.MetadataRequest(), metadata.MetadataRequest()
    assert first == second
    assert first.topics == []
    assert first.topics is not second.topics
    assert first.allow_auto_topic_creation is True
    assert metadata.MetadataRequest(topics=None).topics is None
    assert fetch.PartitionData().records == b""
    assert fetch.FetchRequest().max_bytes == 0x7FFFFFFF


@pytest.mark.parametrize(
    "response",
    [
        metadata.MetadataResponse(throttle_time_ms=1 << 31),
        metadata.MetadataRequest(),
        metadata.MetadataResponse(cluster_id="\ud800"),
        metadata.MetadataResponse(cluster_id="x" * 40_000),
    ],
    ids=["int too large", "another message", "lone surrogate", "string too long"],
)
@pytest.mark.parametrize("version", [8, 12])
def test_what_a_version_cannot_carry_is_refused(response: Any, version: int) -> None:
    with pytest.raises(Invalid, match="cannot encode"):
        encode_frame(1, APIS[3], version, response)
