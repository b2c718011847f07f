"""A connection to another broker: silent, but for requests of our own and their answers.

While it is open, the process at its other end lives (`cluster.early_notice`). Requests are our own
(`logstore.wire.read_feed`), few and small; answers are matched by correlation id.

    answer   size int32 | correlation id int32 | body
"""

import asyncio
from typing import Any

from logstore.errors import Invalid
from logstore.wire.framing.apis import (
    API_VERSIONS_KEY,
    APIS,
    PRIVATE_APIS,
    decode_response_header,
    encode_request_frame,
)
from logstore.wire.framing.login import ClientLogin, log_in
from logstore.wire.messages.api_versions import ApiVersionsRequest
from logstore.wire.primitives import DecodeError

CLIENT_ID = "logstore-broker"
ANSWER_BYTES_MAX = 64 * 1024
WAITING_MAX = 1_000
"""Requests without an answer; a peer that answers none gets no more."""
_SIZE_BYTES = 4


class LinkClosed(ConnectionError):
    """The connection has ended, or its peer answered what is no answer."""


async def log_in_to_peer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, login: ClientLogin, nonce: str
) -> None:
    """Before anything else on this connection. Raises `OSError` for all that ends it badly."""
    steps, response = log_in(login, nonce), None
    try:
        while True:
            key, version, request = steps.send(response)
            writer.writelines(encode_request_frame(1, APIS[key], version, CLIENT_ID, request))
            size = int.from_bytes(await reader.readexactly(_SIZE_BYTES), "big")
            if not _SIZE_BYTES <= size <= ANSWER_BYTES_MAX:
                raise LinkClosed(f"a peer sent an answer of a strange size: bytes={size}")
            frame = memoryview(await reader.readexactly(size))
            _, at = decode_response_header(frame, APIS[key], version)
            response = APIS[key].decode_response(version, frame, at)
    except StopIteration:
        return
    except asyncio.IncompleteReadError as error:
        raise LinkClosed("a peer ended the connection during the login") from error
    except Invalid as error:
        raise LinkClosed(f"login at a peer: {error}") from error


class PeerLink:
    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, began_s: float = 0.0
    ) -> None:
        """`began_s`: when the connection was asked for."""
        self.began_s = began_s
        self._reader = reader
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[memoryview]] = {}
        self._last_id = 0

    @property
    def has_ended(self) -> bool:
        """Whether the connection has, which its tasks learn some turns of the loop later."""
        return self._reader.at_eof() or self._writer.transport.is_closing()

    async def run(self) -> None:
        """Read answers until the connection ends. Raises `OSError` for all that ends it badly."""
        try:
            while True:
                size = int.from_bytes(await self._reader.readexactly(_SIZE_BYTES), "big")
                if not _SIZE_BYTES <= size <= ANSWER_BYTES_MAX:
                    raise LinkClosed(f"a peer sent an answer of a strange size: bytes={size}")
                frame = memoryview(await self._reader.readexactly(size))
                waiter = self._waiting.pop(int.from_bytes(frame[:4], "big"), None)
                if waiter is not None and not waiter.done():
                    waiter.set_result(frame)
        except asyncio.IncompleteReadError:
            pass  # closed
        finally:
            for waiter in self._waiting.values():
                if not waiter.done():
                    waiter.set_exception(LinkClosed("the connection to a broker has ended"))
                    waiter.exception()  # it may have been given up
            self._waiting.clear()

    async def ping(self) -> None:
        """Return when the process at the other end has answered. Raises as `call`.

        A connection alone proves nothing: the kernel accepts it for a process that is ending.
        """
        await self.call(API_VERSIONS_KEY, ApiVersionsRequest())

    async def call(self, key: int, request: Any) -> Any:
        """The answer to a request of ours, version 0; the caller bounds the wait.

        Raises `OSError` when the connection ends, `Invalid` for an answer that cannot be read.
        """
        if len(self._waiting) >= WAITING_MAX:
            raise LinkClosed(f"a peer answers nothing: requests_without_answer={WAITING_MAX}")
        api = PRIVATE_APIS.get(key) or APIS[key]
        self._last_id = number = self._last_id % (2**31 - 1) + 1
        waiter = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._writer.writelines(encode_request_frame(number, api, 0, CLIENT_ID, request))
            frame = await waiter
            _, at = decode_response_header(frame, api, 0)
            return api.decode_response(0, frame, at)
        except DecodeError as error:
            raise Invalid(f"a broker's answer cannot be read: api={api.name} {error}") from error
        finally:
            self._waiting.pop(number, None)
