"""HTTP/1.1 messages on asyncio streams, passed on as they are: what the fault proxy stands on.

Header lines are kept byte for byte, since S3 signatures cover them. Bodies are passed in chunks and
never held, unless asked.
"""

import asyncio
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

HEAD_BYTES_MAX = 1 << 16
CHUNK_BYTES = 1 << 18


class BrokenMessage(ConnectionError):
    """The other side ended in the middle of a message, or speaks something else."""


@dataclass(frozen=True, slots=True)
class Head:
    """First line and header lines of a message, without its empty line."""

    lines: Sequence[bytes]

    @property
    def first(self) -> Sequence[str]:
        return self.lines[0].decode("latin-1").split(" ", 2)

    @property
    def status(self) -> int:
        return int(self.first[1])

    def get(self, name: str) -> str:
        """The value of a header, "" if there is none."""
        wanted = name.lower().encode()
        for line in self.lines[1:]:
            header, _, value = line.partition(b":")
            if header.strip().lower() == wanted:
                return value.strip().decode("latin-1")
        return ""

    def has_token(self, name: str, token: str) -> bool:
        return token in self.get(name).lower()

    def without(self, name: str) -> "Head":
        wanted = name.lower().encode() + b":"
        kept = [line for line in self.lines[1:] if not line.lower().startswith(wanted)]
        return Head([self.lines[0], *kept])

    def encode(self) -> bytes:
        return b"\r\n".join(self.lines) + b"\r\n\r\n"

    def body(self, *, is_answer_to: str | None = None) -> "Body":
        """How the body is framed; of an answer, `is_answer_to` is the method that was asked."""
        if is_answer_to is not None:
            if is_answer_to == "HEAD" or self.status in (204, 304) or self.status < 200:
                return Body(0)
            if not self.get("content-length") and not self.has_token(
                "transfer-encoding", "chunked"
            ):
                return Body(None, to_end=True)
        if self.has_token("transfer-encoding", "chunked"):
            return Body(None)
        return Body(int(self.get("content-length") or 0))


@dataclass(frozen=True, slots=True)
class Body:
    """`length` None: chunked, or to the end of the connection."""

    length: int | None
    to_end: bool = False


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """None where the other side has closed between two messages."""
    try:
        data = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise BrokenMessage("ended inside a head") from error
        return None
    except asyncio.LimitOverrunError as error:
        raise BrokenMessage("the head is too long") from error
    head = Head(data[:-4].split(b"\r\n"))
    if len(head.first) < 2 or not (head.get("content-length") or "0").isdigit():
        raise BrokenMessage("not HTTP")
    if head.first[0].startswith("HTTP/") and not head.first[1].isdigit():
        raise BrokenMessage("not an answer of HTTP")
    return head


async def pass_body(
    body: Body, reader: asyncio.StreamReader, writer: asyncio.StreamWriter | None
) -> int:
    """Pass a body on, or drop it where `writer` is None. Returns its bytes, framing included."""
    if body.to_end:
        return await _pass_to_end(reader, writer)
    if body.length is None:
        return await _pass_chunks(reader, writer)
    left = body.length
    while left:
        left -= len(chunk := await _some(reader, min(left, CHUNK_BYTES)))
        await _write(writer, chunk)
    return body.length


async def read_body(body: Body, reader: asyncio.StreamReader, bytes_max: int) -> bytes:
    """A body of known length, held in memory."""
    if body.length is None or body.length > bytes_max:
        raise BrokenMessage(f"cannot hold a body of {body.length} bytes")
    try:
        return await reader.readexactly(body.length)
    except asyncio.IncompleteReadError as error:
        raise BrokenMessage("ended inside a body") from error


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection by RST, as a machine that died does."""
    linger_none = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_none)
    writer.transport.abort()


async def _pass_chunks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter | None) -> int:
    passed = 0
    while True:
        line = await reader.readline()
        try:
            size = int(line.split(b";")[0], 16)
        except ValueError as error:
            raise BrokenMessage("not a chunk") from error
        await _write(writer, line)
        left = size + 2  # the line end after the data; after the last chunk, the empty trailer
        passed += len(line) + left
        while left:
            left -= len(chunk := await _some(reader, min(left, CHUNK_BYTES)))
            await _write(writer, chunk)
        if size == 0:
            return passed


async def _pass_to_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter | None) -> int:
    passed = 0
    while chunk := await reader.read(CHUNK_BYTES):
        passed += len(chunk)
        await _write(writer, chunk)
    return passed


async def _some(reader: asyncio.StreamReader, bytes_max: int) -> bytes:
    chunk = await reader.read(bytes_max)
    if not chunk:
        raise BrokenMessage("ended inside a body")
    return chunk


async def _write(writer: asyncio.StreamWriter | None, data: bytes) -> None:
    if writer is not None:
        writer.write(data)
        await writer.drain()
