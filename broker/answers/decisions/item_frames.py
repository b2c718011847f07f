"""A response frame that is encoded item by item, in slices, under a budget of bytes. Pure.

    response   front | count of items | items | tail

An item is encoded when it is added, by the generated function of its array, and is let go of.
"""

from typing import Any

from logstore.wire.framing.apis import UNENCODABLE, Api, unencodable
from logstore.wire.framing.parts import SIZE_BYTES, encode_around
from logstore.wire.primitives import Buffer

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
        """Its other fields may change until `buffers`."""
        arrays = {array.field: array for array in api.response_arrays(version)}
        self._put_items = arrays[field].encode

    def add(self, item: Any) -> None:
        """Raises `Invalid` for a value that the version cannot carry."""
        size = len(self._run)
        try:
            self._put_items([item], self._run)
        except UNENCODABLE as failure:
            _, api, version = self._head
            raise unencodable(failure, self.response, api.response_encoder(version)) from failure
        self.byte_count += len(self._run) - size
        if len(self._run) >= RUN_BYTES:
            self._runs.append(bytes(self._run))
            self._run.clear()
        self._count += 1
        if getattr(item, "error_code", 0) and len(self.refused) < REFUSED_MAX:
            self.refused.append(item)

    def buffers(self) -> list[Buffer]:
        """Returns the whole frame, its size included."""
        front, tail = encode_around(*self._head, self.response, self._field, self._count)
        whole = b"".join((front[SIZE_BYTES:], *self._runs, self._run, tail))
        return [len(whole).to_bytes(SIZE_BYTES, "big"), whole]
