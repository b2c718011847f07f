"""Kafka's signed varints: zig-zag, seven bits a byte, low bits first, at most ten bytes.

    value   0   -1    1   -2    2  …   63    64 …
    bytes  00   01   02   03   04  …   7e  80 01 …      bit 7 says that a byte follows

Source: Kafka's `ByteUtils.readVarlong`, Protocol Buffers' sint64. Values are 64-bit.
"""

from logstore.records.batch import CorruptBatch, Reason

ONE_BYTE = tuple(bytes((n,)) for n in range(128))  # by zig-zagged value

_VARINT_BYTES_MAX = 10


def encode_varint(value: int) -> bytes:
    """`value` must be within 64 signed bits."""
    rest = value << 1 if value >= 0 else ~(value << 1)
    if rest < 128:
        return ONE_BYTE[rest]
    if rest < 16384:
        return bytes((rest & 127 | 128, rest >> 7))
    encoded = bytearray()
    while rest > 127:
        encoded.append(rest & 127 | 128)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def decode_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The value at `at` and the position after it. Raises `CorruptBatch` (BAD_RECORD)."""
    if at + 1 < end:  # nearly all have one or two bytes
        byte = data[at]
        if byte < 128:
            return byte >> 1 ^ -(byte & 1), at + 1
        high = data[at + 1]
        if high < 128:
            return (byte & 127 | high << 7) >> 1 ^ -(byte & 1), at + 2
    return _decode_long_varint(data, at, end)


def _decode_long_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    rest = 0
    for i in range(_VARINT_BYTES_MAX):
        if at + i >= end:
            raise CorruptBatch(Reason.BAD_RECORD, at, f"varint passes its end end={end}")
        byte = data[at + i]
        rest |= (byte & 127) << 7 * i
        if byte < 128:
            if rest >= 2**64:
                break
            return rest >> 1 ^ -(rest & 1), at + i + 1
    raise CorruptBatch(Reason.BAD_RECORD, at, "varint longer than 64 bits")
