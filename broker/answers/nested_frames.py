"""A response with arrays in arrays, encoded in slices. Pure.

    front | count | topic 0 | topic 1 | …        topic   front | count | partitions | tail
    … | tail

A run of items is cut out of a response that has these items alone, as `answers.item_frames` does
with single items: between the count, which is the first byte that differs, and the tail. An item
with more items below it than go in one slice is taken apart in the same way. Items that are encoded
are let go of: to free 50,000 of them at the end took 10 to 20 ms.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from logstore.slices import Slices
from logstore.wire.framing.apis import Api, encode_frame
from logstore.wire.primitives import Buffer, encode_varint

SLICE_ITEMS = 500
"""Some 2 ms of encoding."""

JOINED_BYTES = 256 * 1024
"""Runs of items are joined up to this size: a socket takes few buffers at once."""

_COUNT_BYTES = 4
"""Of an array that is not flexible."""

_Encode = Callable[[], bytes]


def nested_frame(
    correlation_id: int,
    api: Api,
    version: int,
    response: Any,
    path: Sequence[str],
    slice_items: int = SLICE_ITEMS,
) -> Slices[list[Buffer]]:
    """The whole frame, its size included. Nothing else may use `response`: its arrays are emptied.

    Raises `Invalid` for a value that the version cannot carry.
    """

    def encode() -> bytes:
        return b"".join(encode_frame(correlation_id, api, version, response))[4:]

    runs: list[bytes] = []
    frames: list[Buffer] = []
    waiting = total = 0
    for run in _runs(encode, response, path, api.is_flexible(version), slice_items):
        runs.append(run)
        waiting += len(run)
        total += len(run)
        if waiting >= JOINED_BYTES:
            frames.append(b"".join(runs))
            runs, waiting = [], 0
        yield
    return [total.to_bytes(4, "big"), *frames, b"".join(runs)]


def _runs(
    encode: _Encode, owner: Any, path: Sequence[str], is_flexible: bool, slice_items: int
) -> Iterator[bytes]:
    """The bytes that `encode` gives for `owner`, in runs of at most `slice_items` items or so."""
    field, rest = path[0], path[1:]
    items = getattr(owner, field)
    if item_count(owner, path, slice_items) <= slice_items:
        yield encode()
        return
    front_bytes, tail = _split(encode, owner, path, is_flexible)
    setattr(owner, field, [])
    count = _count(len(items), is_flexible)
    yield encode()[:front_bytes] + count

    def cut(some: list[Any]) -> bytes:
        setattr(owner, field, some)
        whole = encode()
        begin = front_bytes + len(_count(len(some), is_flexible))
        return whole[begin : len(whole) - len(tail)]

    for run in _grouped(items, rest, slice_items):
        if len(run) == 1 and rest and item_count(run[0], rest, slice_items) > slice_items:
            yield from _runs(lambda run=run: cut(run), run[0], rest, is_flexible, slice_items)  # type: ignore[misc]
        else:
            yield cut(run)
    setattr(owner, field, items)  # which are all taken
    yield tail


def _split(
    encode: _Encode, owner: Any, path: Sequence[str], is_flexible: bool
) -> tuple[int, bytes]:
    """How many bytes come before the count of the array `path[0]`, and those after its items."""
    field, rest = path[0], path[1:]
    items = getattr(owner, field)
    setattr(owner, field, [])
    empty = encode()
    below = getattr(items[0], rest[0]) if rest else None
    if rest:
        setattr(items[0], rest[0], [])
    setattr(owner, field, items[:1])
    one = encode()
    if rest:
        setattr(items[0], rest[0], below)
    setattr(owner, field, items)
    pairs = enumerate(zip(empty, one, strict=False))
    count_end = next(at for at, (byte, other) in pairs if byte != other) + 1
    return count_end - len(_count(0, is_flexible)), empty[count_end:]


def _grouped(items: list[Any], rest: Sequence[str], slice_items: int) -> Iterator[list[Any]]:
    """Neighbours together, up to `slice_items` with all below them; larger ones alone.

    Takes them out of `items`.
    """
    run: list[Any] = []
    total = 0
    items.reverse()
    while items:
        item = items.pop()
        count = 1 + item_count(item, rest, slice_items)
        if run and total + count > slice_items:
            yield run
            run, total = [], 0
        run.append(item)
        total += count
    if run:
        yield run


def item_count(owner: Any, path: Sequence[str], enough: int) -> int:
    """Items below `owner`, on all levels; counted no further than `enough` is exceeded."""
    if not path:
        return 0
    items = getattr(owner, path[0]) or ()
    total = len(items)
    if len(path) > 1:
        for item in items:
            if total > enough:
                break
            total += item_count(item, path[1:], enough - total)
    return total


def _count(count: int, is_flexible: bool) -> bytes:
    return bytes(encode_varint(count + 1)) if is_flexible else count.to_bytes(_COUNT_BYTES, "big")
