"""One record, outside a batch."""

from collections.abc import Sequence
from typing import NamedTuple

from logstore.records.crc32c import Buffer

Header = tuple[str, Buffer | None]


class Record(NamedTuple):
    """A record as `encode_batch` takes it and `decode_records` gives it (there: only `bytes`).

    A tuple, so that thousands are cheap; never used where a broker moves batches.
    """

    offset_delta: int  # from the batch's base offset
    timestamp: int  # ms
    key: Buffer | None
    value: Buffer | None
    headers: Sequence[Header] = ()
