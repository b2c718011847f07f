"""A TCP proxy that can hold the SyncGroup requests of one client.

    python -m tests.scenarios.harness.sync_holder --upstream HOST:PORT --client-id ID

    listening on HOST:PORT    once it accepts connections
    held                      a SyncGroup of that client has come and waits, and its connection too
    hold | release            on stdin: from now on; `release` lets what waits go on

A member whose SyncGroup waits knows its generation and not its assignment, for as long as a test
needs: other members get theirs, read, commit and leave.
"""

import argparse
import asyncio
import sys
from contextlib import suppress
from io import BytesIO

SYNC_GROUP = 14
PIECE_BYTES = 1 << 16
LENGTH_BYTES = 4


def is_sync_of(frame: bytes, client_id: bytes) -> bool:
    """Request header: int16 API key, int16 version, int32 correlation id, string client id."""
    header = BytesIO(frame)
    key = int.from_bytes(header.read(2))
    header.read(2 + 4)
    length = int.from_bytes(header.read(2), signed=True)
    return key == SYNC_GROUP and header.read(max(length, 0)) == client_id


class SyncHolder:
    def __init__(self, upstream: str, client_id: str) -> None:
        self._host, _, port = upstream.rpartition(":")
        self._port = int(port)
        self._client_id = client_id.encode()
        self._passes = asyncio.Event()
        self._passes.set()

    def obey(self, line: str) -> None:
        match line.strip():
            case "hold":
                self._passes.clear()
            case "release":
                self._passes.set()
            case other:
                raise ValueError(f"neither hold nor release: {other!r}")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind = await asyncio.open_connection(self._host, self._port)
        both = [
            asyncio.ensure_future(self._requests(reader, behind[1])),
            asyncio.ensure_future(self._answers(behind[0], writer)),
        ]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for one in both:
            one.cancel()
        behind[1].transport.abort()
        writer.transport.abort()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                length = await reader.readexactly(LENGTH_BYTES)
                frame = await reader.readexactly(int.from_bytes(length))
                if not self._passes.is_set() and is_sync_of(frame, self._client_id):
                    print("held", flush=True)
                    await self._passes.wait()
                writer.write(length + frame)
                await writer.drain()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(PIECE_BYTES):
                writer.write(piece)
                await writer.drain()


async def serve(listen: str, upstream: str, client_id: str) -> None:
    holder = SyncHolder(upstream, client_id)
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, lambda: holder.obey(sys.stdin.readline()))
    here, _, at = listen.rpartition(":")
    server = await asyncio.start_server(holder.serve, here, int(at))
    host, port = server.sockets[0].getsockname()
    print(f"listening on {host}:{port}", flush=True)
    await server.serve_forever()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--listen", default="127.0.0.1:0")
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--client-id", required=True)
    options = parser.parse_args()
    asyncio.run(serve(options.listen, options.upstream, options.client_id))
    return 0


if __name__ == "__main__":
    sys.exit(main())
