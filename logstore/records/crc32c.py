"""CRC-32C (Castagnoli), the checksum of record batches and of segments.

fastcrc takes 0.13 us and 18 us/MB, the native codec 0.08 us and, by what the processor has, 18 to
40 us/MB.
"""

from typing import TYPE_CHECKING

from logstore.records import native
from logstore.slices import Slices

SLICE_BYTES = 4 << 20

Buffer = bytes | bytearray | memoryview

if TYPE_CHECKING or native.codec is None:
    from fastcrc import crc32

    def crc32c(buffer: Buffer, initial: int = 0, /) -> int:
        """The CRC of `buffer`, or of what `initial` is the CRC of followed by `buffer`."""
        return crc32.iscsi(buffer, initial)

else:
    crc32c = native.codec.crc32c


def crc32c_in_slices(data: memoryview, initial: int = 0) -> Slices[int]:
    """The same as `crc32c`."""
    crc = crc32c(data[:SLICE_BYTES], initial)
    for at in range(SLICE_BYTES, len(data), SLICE_BYTES):
        yield
        crc = crc32c(data[at : at + SLICE_BYTES], crc)
    return crc
