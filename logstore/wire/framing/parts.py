"""A response encoded in parts: an event loop does other work in between. Pure.

    frame   size | correlation id | front | count | item 0 | item 1 | … | tail

Nothing here knows a message. The plain encoder writes it with a gap in place of each long array: a
list that has as many items for `len`, gives none, and notes where they belong. The items follow by
the generated function of their array, many at a time. An item with more items below it than one
part may have is taken apart in the same way. `RESPONSE_ARRAYS` of a message module, generated with
the functions that it names, says which arrays there are.

Items that are encoded are let go of: to free 50,000 of them at the end took 10 to 20 ms.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from logstore.slices import Slices
from logstore.wire.framing.apis import UNENCODABLE, Api, unencodable
from logstore.wire.primitives import Array, Buffer

PART_ITEMS = 500
"""Some 2 ms of encoding."""

JOINED_BYTES = 256 * 1024
"""Parts are joined up to this size: a socket takes few buffers at once."""

SIZE_BYTES = 4
"""Of the number at the start of a frame."""

_Write = Callable[[bytearray], object]


def encode_frame_in_parts(
    correlation_id: int, api: Api, version: int, response: Any, part_items: int = PART_ITEMS
) -> Slices[list[Buffer]]:
    """Encode a whole response; yields after every `part_items` items of its arrays or so.

    Returns the bytes that `encode_frame` gives, size included. Nothing else may use `response`: its
    long arrays are emptied. Raises `Invalid` as `encode_frame` does.
    """
    encode, arrays = api.response_encoder(version), api.response_arrays(version)
    frame = _Frame(api.response_head(version, correlation_id), part_items)
    try:
        if item_count(response, arrays, part_items) <= part_items:
            frame.out = encode(response, frame.out, frame.parts)
        else:
            yield from frame.put_in_parts(
                response, arrays, lambda out: encode(response, out, frame.parts)
            )
    except UNENCODABLE as failure:
        raise unencodable(failure, response, encode) from failure
    return frame.finished()


def item_count(owner: Any, arrays: Sequence[Array], enough: int) -> int:
    """Returns how many items `owner` has on all levels, or some number above `enough`."""
    total = 0
    for array in arrays:
        items = getattr(owner, array.field) or ()
        total += len(items)
        if array.below:
            for item in items:
                if total > enough:
                    break
                total += item_count(item, array.below, enough - total)
    return total


def encode_around(
    correlation_id: int, api: Api, version: int, response: Any, field: str, count: int
) -> tuple[bytearray, bytearray]:
    """Returns what comes before and after `count` items of the array `field`, in a whole frame.

    Its size is zero. The array is empty then. Raises `Invalid` for a value that the version cannot
    carry.
    """
    encode = api.response_encoder(version)
    out = api.response_head(version, correlation_id)
    setattr(response, field, [])
    try:
        (end,) = _put_with_gaps(
            response, {field: count}, out, lambda out: encode(response, out, [])
        )
    except UNENCODABLE as failure:
        raise unencodable(failure, response, encode) from failure
    return out[:end], out[end:]


class _Frame:
    """The bytes of a frame so far."""

    __slots__ = ("out", "part_items", "parts")

    def __init__(self, out: bytearray, part_items: int) -> None:
        self.part_items = part_items
        self.parts: list[Buffer] = []
        self.out = out
        """The last of them, which goes on."""

    def put_in_parts(self, owner: Any, arrays: Sequence[Array], write: _Write) -> Slices[None]:
        """Put what `write` appends for `owner`: its long arrays, and what lies around them."""
        most = self.part_items
        long = [array for array in arrays if item_count(owner, (array,), most) > most]
        counts = {array.field: len(getattr(owner, array.field)) for array in long}
        around = bytearray()
        begin = 0
        for array, end in zip(long, _put_with_gaps(owner, counts, around, write), strict=True):
            self.out += around[begin:end]
            begin = end
            yield from self._put_items(array, getattr(owner, array.field))
        self.out += around[begin:]

    def _put_items(self, array: Array, items: list[Any]) -> Slices[None]:
        for run in _runs(array, items, self.part_items):
            if len(run) == 1 and item_count(run[0], array.below, self.part_items) > self.part_items:
                yield from self.put_in_parts(run[0], array.below, partial(self._append, array, run))
            else:
                self.out = self._append(array, run, self.out)
            if len(self.out) >= JOINED_BYTES:
                self.parts.append(self.out)
                self.out = bytearray()
            yield

    def _append(self, array: Array, items: Sequence[Any], out: bytearray) -> bytearray:
        """Returns the bytearray that goes on: records have buffers of their own in between."""
        if array.holds_records:
            last: bytearray = array.encode(items, out, self.parts)
            return last
        array.encode(items, out)
        return out

    def finished(self) -> list[Buffer]:
        parts: list[Buffer] = [*self.parts, self.out] if self.out else self.parts
        first = parts[0]
        assert isinstance(first, bytearray)
        size = sum(map(len, parts)) - SIZE_BYTES
        first[:SIZE_BYTES] = size.to_bytes(SIZE_BYTES, "big")
        return parts


class _Gap(list[Any]):
    """Stands for an array in `out`: has items for `len`, gives none, notes where they belong."""

    def __init__(self, count: int, out: bytearray) -> None:
        super().__init__()
        self._count = count
        self._out = out
        self.at = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        self.at = len(self._out)
        return iter(())


def _put_with_gaps(owner: Any, counts: dict[str, int], out: bytearray, write: _Write) -> list[int]:
    """Append `owner` by `write`; returns where in `out` so many items of each array belong."""
    gaps = {field: _Gap(count, out) for field, count in counts.items()}
    arrays = {field: getattr(owner, field) for field in counts}
    for field, gap in gaps.items():
        setattr(owner, field, gap)
    try:
        write(out)
    finally:
        for field, items in arrays.items():
            setattr(owner, field, items)
    return [gap.at if gap else len(out) for gap in gaps.values()]


def _runs(array: Array, items: list[Any], part_items: int) -> Iterator[list[Any]]:
    """Neighbours together, up to `part_items` with all below them; larger ones alone.

    Takes them out of `items`.
    """
    items.reverse()
    while items and not array.below:
        run = items[: -part_items - 1 : -1]
        del items[-part_items:]
        yield run
    run, total = [], 0
    below_of = _counter(array.below, part_items)
    while items:
        item = items.pop()
        count = 1 + below_of(item)
        if run and total + count > part_items:
            yield run
            run, total = [], 0
        run.append(item)
        total += count
    if run:
        yield run


def _counter(arrays: Sequence[Array], enough: int) -> Callable[[Any], int]:
    """Returns `item_count` of these arrays; it is quicker for the one of most answers."""
    if len(arrays) == 1 and not arrays[0].below:
        items_of = attrgetter(arrays[0].field)
        return lambda item: len(items_of(item) or ())
    return lambda item: item_count(item, arrays, enough)
