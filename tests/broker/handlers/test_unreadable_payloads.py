"""A payload that some client cannot read is refused, and nothing of it is stored."""

import zlib

import pyarrow as pa
import pytest

from logstore.records.batch import HEADER_BYTES, Codec, read_header
from logstore.records.compression import compress
from logstore.records.recompress import TargetCodec, packed_batch
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from tests.broker.running import NOW_MS, Running, batch_of, fetch, produce

PLAIN = batch_of(b"x" * 50_000, b"y" * 50_000, b"z" * 50_000)


def batch_with(payload: bytes, codec: Codec) -> bytes:
    """`PLAIN` with these bytes for its records, CRC and all."""
    header = read_header(memoryview(PLAIN), 0, len(PLAIN))
    return bytes(packed_batch(header, payload, TargetCodec(codec), NOW_MS)[0])


RECORDS = PLAIN[HEADER_BYTES:]
LZ4 = pa.Codec("lz4").compress(RECORDS, asbytes=True)
OURS = bytes(compress("lz4", RECORDS))
EMPTY_BLOCK = bytes.fromhex("0100000000")
BEHIND_AN_EMPTY_BLOCK = EMPTY_BLOCK.join((OURS[:7], OURS[7:]))
UNREADABLE: list[tuple[Codec, bytes]] = [
    ("lz4", LZ4),
    ("lz4", BEHIND_AN_EMPTY_BLOCK),
    ("gzip", zlib.compress(RECORDS)),
]


@pytest.mark.parametrize(
    ("codec", "payload"), UNREADABLE, ids=["linked blocks", "an empty block", "zlib"]
)
def test_a_payload_that_java_cannot_read_is_refused(
    running: Running, client: Connection, codec: Codec, payload: bytes
) -> None:
    name = f"unreadable-{UNREADABLE.index((codec, payload))}"
    running.create_topic(name)
    answer = produce(client, name, batch_with(payload, codec))

    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert codec in (answer.error_message or "")
    assert fetch(client, name).high_watermark == 0


@pytest.mark.parametrize("target", ["lz4", "gzip"])
def test_so_it_is_where_the_topic_has_that_codec_itself(
    running: Running, client: Connection, target: str
) -> None:
    name = f"unreadable-here-{target}"
    running.create_topic(name, configs={"compression.type": target})
    answer = produce(client, name, batch_with(LZ4, "lz4"))

    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert fetch(client, name).high_watermark == 0
