"""Answers as they are written: small ones together, large ones in parts. Pure."""

from collections import deque

from logstore.wire.primitives import Buffer

JOINED_BYTES_MAX = 64 * 1024
CHUNK_BYTES_MAX = 512 * 1024


def next_chunk(outbox: deque[Buffer]) -> Buffer:
    """Take the next bytes to write. Returns small buffers joined, of a large one a part.

    The transport copies what does not fit.
    """
    first = outbox.popleft()
    size = len(first)
    if size > CHUNK_BYTES_MAX:
        view = memoryview(first)
        outbox.appendleft(view[CHUNK_BYTES_MAX:])
        return view[:CHUNK_BYTES_MAX]
    if not outbox or size + len(outbox[0]) > JOINED_BYTES_MAX:
        return first
    joined = [first]
    while outbox and size + len(outbox[0]) <= JOINED_BYTES_MAX:
        size += len(outbox[0])
        joined.append(outbox.popleft())
    return b"".join(joined)
