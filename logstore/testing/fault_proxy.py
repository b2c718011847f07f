"""A proxy that makes a nearby S3 or DynamoDB server as slow and unreliable as a far one.

    python -m logstore.testing.fault_proxy --listen 127.0.0.1:0 --upstream 127.0.0.1:7070 --seed 1
        --latency 1 --rule "applied-reset rate=0.05 methods=PUT" --rule "403 from=10 until=20"

It prints `listening on HOST:PORT` when it accepts connections. What a rule may say:
`testing.fault_plan`. It passes headers on untouched, the Host too, so signatures hold, keeps
connections, and streams bodies. Its own path, /__faults:

    GET     {"rules": [...], "latency": 1.0, "counts": {"PUT 200": 7, "PUT applied-reset": 1},
             "bytes": {"PUT": 5000, "GET": 70000}}
    PUT     {"rules": [...], "latency": 0.5}: replaces either; time windows and counts restart

A count is of requests: by the status that was passed on, or by the fault. What became of a late
request is counted as `late 200`, `late 412` and so on. Bytes are those of bodies, by method, of
requests and answers together; they are counted when an answer's body begins.
"""

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import Any

from logstore.errors import Invalid
from logstore.testing.fault_exchange import Exchanges, StreamPair, encode_message
from logstore.testing.fault_plan import (
    FaultPlan,
    FaultRule,
    ProxiedRequest,
    RequestFate,
    spread_of,
)
from logstore.testing.http_stream import HEAD_BYTES_MAX, Head, pass_body, read_body, read_head

CONTROL_PATH = "/__faults"
_READ_AHEAD_BYTES = 1 << 20  # of a connection to the server behind


class FaultProxy:
    """Plays `plan` between clients and `upstream` (host, port). Lives on one event loop."""

    def __init__(self, upstream: tuple[str, int], plan: FaultPlan) -> None:
        self.counts: Counter[str] = Counter()
        self.moved_bytes: Counter[str] = Counter()
        self._upstream = upstream
        self._plan = plan
        self._began_s = time.monotonic()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._is_closed = False

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """Accept connections; returns host:port."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=HEAD_BYTES_MAX)
        bound = self._server.sockets[0].getsockname()
        return f"{bound[0]}:{bound[1]}"

    async def close(self) -> None:
        """Ends every connection; late requests that have not gone on yet never do.

        One that was accepted a moment ago ends when the loop comes to it.
        """
        self._is_closed = True
        if self._server is not None:
            await _stop_accepting(self._server)
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def set_plan(self, plan: FaultPlan) -> None:
        self._plan = plan
        self._began_s = time.monotonic()
        self.counts.clear()
        self.moved_bytes.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._keep(task)
        exchange = Exchanges(self, StreamPair(reader, writer))
        try:
            while not self._is_closed and (head := await read_head(reader)) is not None:
                if head.get("expect").lower() == "100-continue":
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                    head = head.without("expect")
                if head.first[1] == CONTROL_PATH:
                    await self._control(head, StreamPair(reader, writer))
                elif not await exchange.play(head):
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # either side went away, as they may
        except asyncio.CancelledError:
            pass  # closing; streams log a cancelled handler as an error
        finally:
            exchange.end(abruptly=self._is_closed)
            if self._is_closed:
                writer.transport.abort()
            writer.close()

    def fate(self, asked: ProxiedRequest) -> RequestFate:
        return self._plan.fate(asked, time.monotonic() - self._began_s)

    def latency_s(self, asked: ProxiedRequest, size_bytes: int, fate: RequestFate) -> float:
        return self._plan.latency_s(asked, size_bytes, fate)

    async def connect(self) -> StreamPair:
        return StreamPair(*await asyncio.open_connection(*self._upstream, limit=_READ_AHEAD_BYTES))

    def send_later(self, method: str, message: bytes, seconds: float) -> None:
        """Have `message` sent after `seconds`, also if its sender is gone."""
        self._keep(asyncio.get_running_loop().create_task(self._late(method, message, seconds)))

    async def _late(self, method: str, message: bytes, seconds: float) -> None:
        await asyncio.sleep(seconds)
        with suppress(ConnectionError):
            upstream = await self.connect()
            try:
                upstream.writer.write(message)
                head = await read_head(upstream.reader)
                if head is not None:
                    await pass_body(head.body(is_answer_to=method), upstream.reader, None)
                    self.counts[f"late {head.status}"] += 1
            finally:
                upstream.writer.close()

    def _keep(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _control(self, head: Head, client: StreamPair) -> None:
        body = await read_body(head.body(), client.reader, HEAD_BYTES_MAX)
        status = "200 OK"
        answer: dict[str, Any]
        try:
            if head.first[0] == "PUT":
                self.set_plan(_changed(self._plan, json.loads(body)))
            answer = {
                "rules": [rule.fields() for rule in self._plan.rules],
                "latency": self._plan.latency_scale,
                "counts": dict(sorted(self.counts.items())),
                "bytes": dict(sorted(self.moved_bytes.items())),
            }
        except (Invalid, ValueError, TypeError, AttributeError) as error:
            status, answer = "400 Bad Request", {"error": str(error)}
        client.writer.write(encode_message(status, "application/json", json.dumps(answer).encode()))
        await client.writer.drain()


async def _stop_accepting(server: asyncio.Server) -> None:
    """A server that is closed first leaks what it has accepted and not yet given a transport."""
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    await asyncio.sleep(0)


def _changed(plan: FaultPlan, fields: dict[str, Any]) -> FaultPlan:
    if unknown := sorted(set(fields) - {"rules", "latency"}):
        raise Invalid(f"unknown: {unknown[0]}; there are rules and latency")
    rules = plan.rules
    if "rules" in fields:
        rules = tuple(FaultRule.of_fields(rule) for rule in fields["rules"])
    latency_scale = float(fields.get("latency", plan.latency_scale))
    return FaultPlan(plan.seed, rules, latency_scale, plan.spreads)


async def _run(options: argparse.Namespace) -> None:
    host, _, port = options.upstream.rpartition(":")
    rules = tuple(FaultRule.of(text) for text in options.rule)
    spreads = dict(spread_of(text) for text in options.spread)
    plan = FaultPlan(options.seed, rules, options.latency, spreads)
    proxy = FaultProxy((host, int(port)), plan)
    listen_host, _, listen_port = options.listen.rpartition(":")
    where = await proxy.start(listen_host, int(listen_port))
    sys.stdout.write(f"listening on {where}\n")
    sys.stdout.flush()
    try:
        await asyncio.Event().wait()
    finally:
        await proxy.close()


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--listen", default="127.0.0.1:0", metavar="HOST:PORT")
    parser.add_argument("--upstream", required=True, metavar="HOST:PORT")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--latency", type=float, default=1.0, help="times that of S3; 0 for none")
    parser.add_argument(
        "--spread",
        action="append",
        default=[],
        metavar="METHOD=P50,P99,P50,P99",
        help="milliseconds of a tiny request, then of one of 4 MiB",
    )
    parser.add_argument("--rule", action="append", default=[], help="may be given several times")
    try:
        asyncio.run(_run(parser.parse_args()))
    except Invalid as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
