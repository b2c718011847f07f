"""A response frame that is encoded item by item, in slices, under a budget of bytes. Pure.

    response   front | count of items | items | tail

The front and the tail are those of the response without items. An item's bytes are cut out of a
response that has this item alone: between the count, which is the first byte that differs, and the
tail.
"""

from typing import Any

from logstore.wire.framing.apis import Api, encode_frame
from logstore.wire.primitives import Buffer, encode_varint

COUNT_BYTES = 4
"""Of an array that is not flexible."""
REFUSED_MAX = 1_000

RUN_BYTES = 64 * 1024
"""Items are joined up to this size: freeing 60,000 of them at once takes milliseconds."""


class ItemFrame:
    """`response` has no items yet; they go in its array `field`, any number of bytes each."""

    def __init__(
        self, correlation_id: int, api: Api, version: int, response: Any, field: str
    ) -> None:
        self.byte_count = 0
        self._runs: list[bytes] = []
        self._run = bytearray()
        self._count = 0
        self.refused: list[Any] = []
        """The first items with an error code, to be counted: they are kept, so not many."""
        self._head = (correlation_id, api, version)
        self.response, self._field = response, field
        """Its other fields may change until `buffers`, if they keep their sizes."""
        self._empty = self._encode([])
        self._front_bytes = 0
        self._tail_bytes = 0

    def add(self, item: Any) -> None:
        """Raises `Invalid` for a value that the version cannot carry."""
        whole = self._encode([item])
        if not self._front_bytes:
            self._find_place(whole)
        encoded = whole[self._front_bytes : len(whole) - self._tail_bytes]
        self._run += encoded
        if len(self._run) >= RUN_BYTES:
            self._runs.append(bytes(self._run))
            self._run.clear()
        self._count += 1
        self.byte_count += len(encoded)
        if getattr(item, "error_code", 0) and len(self.refused) < REFUSED_MAX:
            self.refused.append(item)

    def buffers(self) -> list[Buffer]:
        """The whole frame, its size included."""
        self._empty = self._encode([])
        if not self._count:
            whole = self._empty
        else:
            _, api, version = self._head
            count = self._count
            is_flexible = api.is_flexible(version)
            counted = bytes(encode_varint(count + 1)) if is_flexible else count.to_bytes(4, "big")
            front = self._empty[: self._front_bytes - (1 if is_flexible else COUNT_BYTES)]
            tail = self._empty[len(self._empty) - self._tail_bytes :]
            whole = b"".join((front, counted, *self._runs, self._run, tail))
        return [len(whole).to_bytes(4, "big"), whole]

    def _find_place(self, whole: bytes) -> None:
        pairs = enumerate(zip(self._empty, whole, strict=False))
        self._front_bytes = next(at for at, (one, other) in pairs if one != other) + 1
        self._tail_bytes = len(self._empty) - self._front_bytes

    def _encode(self, items: list[Any]) -> bytes:
        setattr(self.response, self._field, items)
        return b"".join(encode_frame(*self._head, self.response))[4:]
