"""A TCP proxy that can swallow every byte: `python -m tests.scenarios.harness.swallower`.

    listening on HOST:PORT        once it accepts connections
    swallowing | passing          after SIGUSR1 | SIGUSR2

While it swallows, connections stay up, new ones are accepted, and nothing gets through in either
direction: what a network does that drops packets, or a host that hangs. A connection that lost a
byte stays silent for good.
"""

import argparse
import asyncio
import signal
import sys
from contextlib import suppress

PIECE_BYTES = 1 << 16


class Swallower:
    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.passes = asyncio.Event()
        self.passes.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            behind = await asyncio.open_connection(self.host, self.port)
        except OSError:
            writer.transport.abort()
            return
        is_lost = asyncio.Event()
        both = [
            asyncio.ensure_future(self.pump(reader, behind[1], is_lost)),
            asyncio.ensure_future(self.pump(behind[0], writer, is_lost)),
        ]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for one in both:
            one.cancel()
        behind[1].transport.abort()
        writer.transport.abort()

    async def pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_lost: asyncio.Event
    ) -> None:
        with suppress(OSError):
            while piece := await reader.read(PIECE_BYTES):
                if not self.passes.is_set():
                    is_lost.set()
                if not is_lost.is_set():  # a stream with a hole is never delivered again
                    writer.write(piece)
                    await writer.drain()
        await self.passes.wait()  # the end of a connection is swallowed too


async def serve(listen: str, upstream: str) -> None:
    host, _, port = upstream.rpartition(":")
    swallower = Swallower(host, int(port))
    loop = asyncio.get_running_loop()

    def swallow() -> None:
        swallower.passes.clear()
        print("swallowing")

    def let_pass() -> None:
        swallower.passes.set()
        print("passing")

    loop.add_signal_handler(signal.SIGUSR1, swallow)
    loop.add_signal_handler(signal.SIGUSR2, let_pass)
    here, _, at = listen.rpartition(":")
    server = await asyncio.start_server(swallower.serve, here, int(at))
    bound = server.sockets[0].getsockname()
    print(f"listening on {bound[0]}:{bound[1]}")
    await server.serve_forever()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--listen", default="127.0.0.1:0")
    parser.add_argument("--upstream", required=True)
    options = parser.parse_args()
    asyncio.run(serve(options.listen, options.upstream))
    return 0


if __name__ == "__main__":
    sys.exit(main())
