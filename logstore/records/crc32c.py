"""CRC-32C (Castagnoli), the checksum of record batches and of segments."""

from fastcrc import crc32

Buffer = bytes | bytearray | memoryview


def crc32c(buffer: Buffer, initial: int = 0) -> int:
    """The CRC of `buffer`, or of what `initial` is the CRC of followed by `buffer`."""
    return crc32.iscsi(buffer, initial)
