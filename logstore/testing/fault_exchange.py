"""One connection through the fault proxy: each request played as its fate says."""

import asyncio
import json
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from logstore.testing.fault_plan import ProxiedRequest, RequestFate
from logstore.testing.http_stream import BrokenMessage, Head, pass_body, read_body, read_head, reset

HANG_S = 120.0
HELD_BYTES_MAX = 64 << 20

_CODES = {
    "500": ("500 Internal Server Error", "InternalError", "InternalServerError"),
    "503": ("503 Slow Down", "SlowDown", "ServiceUnavailable"),
    "409": ("409 Conflict", "ConditionalRequestConflict", "TransactionConflictException"),
    "507": ("507 Insufficient Storage", "XMinioStorageFull", "InternalServerError"),
    "403": ("403 Forbidden", "AccessDenied", "AccessDeniedException"),
}


@dataclass(frozen=True, slots=True)
class StreamPair:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Proxy(Protocol):
    """State that connections share."""

    counts: Counter[str]
    moved_bytes: Counter[str]

    def fate(self, asked: ProxiedRequest) -> RequestFate: ...

    def latency_s(self, asked: ProxiedRequest, size_bytes: int, fate: RequestFate) -> float: ...

    async def connect(self) -> StreamPair:
        """A new connection to the server behind."""
        ...

    def send_later(self, method: str, message: bytes, seconds: float) -> None:
        """Have `message` sent after `seconds`, whatever becomes of its sender."""
        ...


class Exchanges:
    """Requests of one client connection, and the upstream connection that goes with it."""

    def __init__(self, proxy: Proxy, client: StreamPair) -> None:
        self._proxy = proxy
        self._client = client
        self._upstream: StreamPair | None = None

    def end(self, *, abruptly: bool = False) -> None:
        """Close the upstream connection; `abruptly`: what it has yet to send is dropped."""
        if self._upstream is not None:
            if abruptly:
                self._upstream.writer.transport.abort()
            self._upstream.writer.close()
            self._upstream = None

    async def play(self, head: Head) -> bool:
        """One request, to its end. False: the client's connection is over."""
        method, target = head.first[0], head.first[1]
        asked = ProxiedRequest(method, target, head.get("x-amz-target"))
        fate = self._proxy.fate(asked)
        fault = fate.rule.fault if fate.rule else None
        if fault is not None:
            self._proxy.counts[f"{method} {fault}"] += 1
        began_s = time.monotonic()
        size_bytes = head.body().length or 0
        on_its_way_s = self._proxy.latency_s(asked, size_bytes, fate) / 2
        if fault == "slow" and fate.rule is not None:
            on_its_way_s += fate.rule.seconds
        await asyncio.sleep(on_its_way_s)
        if fault == "late" and fate.rule is not None:
            return await self._postpone(head, fate.rule.seconds)
        if fault in ("reset", "hang", *_CODES):
            await pass_body(head.body(), self._client.reader, None)
            return await self._lie(head, fault)
        try:
            answer, upstream = await self._forward(head)
        except OSError:
            self._proxy.counts[f"{method} lost by the server"] += 1
            raise
        answer_bytes = answer.body(is_answer_to=method).length or 0
        self._proxy.moved_bytes[method] += size_bytes + answer_bytes
        whole_s = self._proxy.latency_s(asked, max(size_bytes, answer_bytes), fate)
        spent_s = time.monotonic() - began_s
        await asyncio.sleep(max(0.0, whole_s - spent_s))
        if fault is not None and fault.startswith("applied-"):
            await pass_body(answer.body(is_answer_to=method), upstream.reader, None)
            if _is_last(method, answer):
                self.end()
            return await self._lie(head, fault.removeprefix("applied-"))
        if fault != "cut":
            self._proxy.counts[f"{method} {answer.status}"] += 1
        return await self._answer(method, answer, upstream, cut=fault == "cut")

    async def _forward(self, head: Head) -> tuple[Head, StreamPair]:
        upstream = self._upstream
        if upstream is None or upstream.reader.at_eof() or upstream.writer.is_closing():
            self.end()
            upstream = self._upstream = await self._proxy.connect()
        upstream.writer.write(head.encode())
        await pass_body(head.body(), self._client.reader, upstream.writer)
        await upstream.writer.drain()
        answer = await read_head(upstream.reader)
        while answer is not None and answer.status == 100:
            answer = await read_head(upstream.reader)
        if answer is None:
            raise BrokenMessage("the upstream server closed without an answer")
        return answer, upstream

    async def _answer(self, method: str, answer: Head, upstream: StreamPair, *, cut: bool) -> bool:
        body = answer.body(is_answer_to=method)
        writer = self._client.writer
        writer.write(answer.encode())
        if cut:
            half = await upstream.reader.read(max(1, (body.length or 0) // 2))
            writer.write(half)
            await writer.drain()
            reset(writer)
            return False
        await pass_body(body, upstream.reader, writer)
        await writer.drain()
        if _is_last(method, answer):
            self.end()
            return False
        return True

    async def _lie(self, head: Head, fault: str) -> bool:
        """Answer what is not so, or nothing. The request's body was read."""
        if fault == "hang":
            with suppress(TimeoutError):  # or until the client has had enough
                await asyncio.wait_for(self._client.reader.read(1), HANG_S)
        if fault in ("hang", "reset"):
            reset(self._client.writer)
            return False
        status, object_code, row_code = _CODES[fault]
        self._client.writer.write(_error(head, status, object_code, row_code))
        await self._client.writer.drain()
        return True

    async def _postpone(self, head: Head, seconds: float) -> bool:
        body = await read_body(head.body(), self._client.reader, HELD_BYTES_MAX)
        self._proxy.send_later(head.first[0], head.encode() + body, seconds)
        reset(self._client.writer)
        return False


def _is_last(method: str, answer: Head) -> bool:
    """Whether the server closes the connection after this answer."""
    return answer.body(is_answer_to=method).to_end or answer.has_token("connection", "close")


def _error(head: Head, status: str, object_code: str, row_code: str) -> bytes:
    """In the form of the service that was asked."""
    if head.get("x-amz-target"):
        name = f"com.amazonaws.dynamodb.v20120810#{row_code}"
        body = json.dumps({"__type": name, "message": "injected"}).encode()
        return encode_message(status, "application/x-amz-json-1.0", body)
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{object_code}</Code><Message>injected</Message></Error>"
    ).encode()
    return encode_message(status, "application/xml", b"" if head.first[0] == "HEAD" else body)


def encode_message(status: str, kind: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
