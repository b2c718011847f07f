"""A producer's batch in the codec of its topic (`compression.type`), as Kafka's broker stores it.

The records stay byte for byte what they are, and so do offsets, timestamps, sequence and headers;
length, codec bits and CRC are new. A batch that has the codec already is left alone, whatever its
level (`LogValidator`: in-place assignment).
"""

from typing import NamedTuple

from logstore.records.batch import HEADER_BYTES, BatchHeader, Codec
from logstore.records.compression import compress
from logstore.records.crc32c import Buffer
from logstore.records.encode import with_payload

GZIP_LEVEL = 6
"""zlib's default; the library's own would be 9."""

LZ4_FAST = 9
"""Kafka's default means lz4's fast compressor, every other level the slow one with that level."""

ZSTD_ULTRA_FROM = 20
"""From here on zstd takes up to 0.7 GiB, by the size of what it packs."""

ULTRA_BYTES_MAX = 8 << 20
"""Larger payloads are packed with the level below."""


class TargetCodec(NamedTuple):
    codec: Codec
    level: int | None = None
    """As Kafka's configs count; None: the codec has none."""

    @property
    def is_fast(self) -> bool:
        """Whether packing takes some milliseconds per MB, whatever is packed."""
        match self.codec:
            case "gzip":
                return False
            case "lz4":
                return self.level in (None, LZ4_FAST)
            case "zstd":
                return self.level is None or self.level <= 3
            case _:
                return True


def pack(payload: Buffer, target: TargetCodec) -> Buffer:
    """The records of a batch, in the target's codec. For a thread, unless `target.is_fast`."""
    if target.codec == "none":
        return payload
    level = library_level(target, len(payload))
    return compress(target.codec, payload, level=level, xerial=True)


def packed_batch(
    header: BatchHeader, payload: Buffer, target: TargetCodec, max_timestamp_ms: int
) -> tuple[memoryview, BatchHeader]:
    """The batch of `header` with `payload`, which `pack` made, and its largest timestamp."""
    header = header._replace(max_timestamp=max_timestamp_ms)
    batch, header = with_payload(header, target.codec, payload)
    return memoryview(batch), header


def packed_bytes(payload: Buffer) -> int:
    """Size of the whole batch."""
    return HEADER_BYTES + len(payload)


def library_level(target: TargetCodec, payload_bytes: int) -> int | None:
    """The level as the codec's library counts; None: its default."""
    level = target.level
    match target.codec:
        case "gzip":
            return level if level is not None and level > 0 else GZIP_LEVEL
        case "lz4":
            return None if level == LZ4_FAST else level
        case "zstd" if level is not None and level >= ZSTD_ULTRA_FROM:
            return level if payload_bytes <= ULTRA_BYTES_MAX else ZSTD_ULTRA_FROM - 1
        case _:
            return level
