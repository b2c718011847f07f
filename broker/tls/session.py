"""TLS of one connection without a socket: bytes in, plaintext out, and the other way.

    from the peer → incoming ┐               ┌ read → plaintext
                             ├ SSL object    │
    to the peer   ← outgoing ┘               └ write ← plaintext

A `MemoryBIO` keeps the room that it once had, so bytes go through in pieces of `PIECE_BYTES`: an
idle connection holds two such pieces and OpenSSL's state. asyncio's own layer holds 256 KiB more.
"""

import ssl
from collections.abc import Iterator
from contextlib import suppress
from typing import cast

RECORD_HEAD_BYTES = 5
PIECE_BYTES = 16 * 1024
"""The plaintext of a full record."""
HANDSHAKE_BYTES_MAX = 128 * 1024
"""A chain of client certificates of 100 KB, which is OpenSSL's limit, and what is around it."""
_PIECES_WRITTEN = 8
"""At once: a call of the system each would cost more than to join them."""
_HANDSHAKE, _MAJOR = 0x16, 0x03


def is_client_hello(first: bytes | bytearray | memoryview) -> bool:
    """Whether a stream that begins with these bytes, three or more, can be one of TLS."""
    return first[0] == _HANDSHAKE and first[1] == _MAJOR


def whole_records(data: bytes) -> int:
    """How many of the bytes are whole records: a step of a handshake for each byte is no work."""
    at = 0
    while len(data) - at >= RECORD_HEAD_BYTES:
        end = at + RECORD_HEAD_BYTES + int.from_bytes(data[at + 3 : at + 5], "big")
        if end > len(data):
            break
        at = end
    return at


class TlsSession:
    """One object at a time calls it: the loop, or the thread of a handshake."""

    __slots__ = ("_incoming", "_object", "_outgoing")

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def shake(self, data: bytes | bytearray) -> bool:
        """Go on with the handshake; whether it is done. Raises `ssl.SSLError`.

        Takes milliseconds of CPU, without the interpreter's lock: it is called in a thread.
        """
        self._incoming.write(data)
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def feed(self, data: memoryview) -> None:
        """At most `PIECE_BYTES` from the peer; `open_into` before the next."""
        self._incoming.write(data)

    @property
    def has_more(self) -> bool:
        """Whether `open_into` may find plaintext."""
        return bool(self._incoming.pending or self._object.pending())

    def open_into(self, buffer: memoryview) -> int | None:
        """Plaintext into `buffer`: its bytes, None at the peer's end. Raises `ssl.SSLError`."""
        count = 0
        while count < len(buffer) and self.has_more:
            try:
                read = cast("int", self._object.read(len(buffer) - count, buffer[count:]))
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                read = 0
            if not read:
                return count or None
            count += read
        return count

    def seal(self, data: bytes | bytearray | memoryview) -> Iterator[bytes]:
        """The bytes that carry `data` to the peer, for one write each. Raises `ssl.SSLError`."""
        if len(data) <= PIECE_BYTES:
            self._object.write(data)
            yield self._outgoing.read()
            return
        view, sealed = memoryview(data), []
        for at in range(0, len(view), PIECE_BYTES):
            self._object.write(view[at : at + PIECE_BYTES])
            sealed.append(self._outgoing.read())
            if len(sealed) == _PIECES_WRITTEN:
                yield b"".join(sealed)
                sealed.clear()
        if sealed:
            yield b"".join(sealed)

    def shut(self) -> bytes:
        """The bytes that tell the peer that no more follows."""
        with suppress(ssl.SSLError, ValueError):  # the peer's own end, which is not waited for
            self._object.unwrap()
        return self._outgoing.read()

    def to_send(self) -> bytes:
        """Bytes of a handshake, of an alert, of a ticket."""
        return self._outgoing.read()

    @property
    def has_to_send(self) -> bool:
        """Whether opening or a handshake left bytes for the peer: an answer to a key update."""
        return bool(self._outgoing.pending)

    @property
    def peer_certificate(self) -> bytes | None:
        """In DER; None: it showed none, or none was asked for."""
        return self._object.getpeercert(binary_form=True)
