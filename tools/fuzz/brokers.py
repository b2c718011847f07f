"""Attacks three brokers with damaged frames: `python -m tools.fuzz.brokers --frames 100000`.

A process for each broker sends frames of its own seed, some at a time; a healthy client beside each
produces and reads. Shown are frames that a handler answered and that were refused, the longest hold
of each event loop and the longest wait of a healthy client, memory, and how often a broker was
fenced. Exit code 1: a broker was fenced, ended, or reported a fault of its own.
"""

import argparse
import multiprocessing
import random
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from benchmarks.peers.holds import longest_hold
from logstore.wire.messages.create_topics import CreatableTopic
from tools.fuzz.frames import TOPICS, frames
from tools.fuzz.under_attack import address_of, attacked, healthy_beside, report

AT_ONCE = 8
ANSWER_S = 1.0
REPORT_S = 30.0
_SIZE = struct.Struct(">i")
_KEPT_BYTES = 1 << 16


class Tally(NamedTuple):
    """Frames by what became of them."""

    answered: int = 0
    refused: int = 0
    """The connection was closed, as for any frame that makes no sense."""
    waiting: int = 0
    """No answer within a second: a poll, a rebalance, a Produce that wants none."""

    @property
    def total(self) -> int:
        return sum(self)

    @property
    def reached(self) -> int:
        """A handler."""
        return self.answered + self.waiting


def attack(address: tuple[str, int], source: Iterator[bytes]) -> Iterator[Tally]:
    """One tally per connection; frames behind a refused one are sent again."""
    queue: deque[bytes] = deque()
    while True:
        with suppress(OSError), socket.create_connection(address, 10.0) as peer:
            peer.settimeout(ANSWER_S)
            yield from _converse(peer, source, queue)


def _converse(peer: socket.socket, source: Iterator[bytes], queue: deque[bytes]) -> Iterator[Tally]:
    while True:
        queue.extend(islice(source, AT_ONCE - len(queue)))
        try:
            peer.sendall(b"".join(queue))
            for _ in range(len(queue)):
                _skip_answer(peer)
                queue.popleft()
                yield Tally(answered=1)
        except TimeoutError:
            queue.popleft()
            yield Tally(waiting=1)
            return
        except OSError:
            queue.popleft()
            yield Tally(refused=1)
            return


def _skip_answer(peer: socket.socket) -> None:
    left = _SIZE.unpack(_exactly(peer, _SIZE.size))[0]
    while left:
        left -= len(_exactly(peer, min(left, _KEPT_BYTES)))


def _exactly(peer: socket.socket, count: int) -> bytes:
    data = peer.recv(count, socket.MSG_WAITALL)
    if not data:
        raise ConnectionResetError("the broker hung up")
    return data


def _attacker(
    address: tuple[str, int],
    seed: str,
    count: int,
    end_s: float,
    results: "multiprocessing.Queue[Tally]",
) -> None:
    tally = Tally()
    said_s = time.perf_counter()
    for one in attack(address, frames(random.Random(seed))):
        tally = Tally(*map(sum, zip(tally, one, strict=True)))
        now_s = time.perf_counter()
        if now_s - said_s > REPORT_S:
            said_s = now_s
            sys.stderr.write(f"fuzz: {address[1]}: {tally}\n")
        if tally.total >= count or now_s > end_s:
            break
    results.put(tally)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz.brokers", description=__doc__)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with attacked([CreatableTopic(name, 2, 1) for name in TOPICS]) as each:
        for one in each:
            longest_hold(one)
        before = [one.rss_bytes() for one in each]
        with healthy_beside(each) as healthy:
            tallies, took_s = _attack_all([address_of(one) for one in each], options)
        _show(tallies, took_s)
        return report(each, healthy, before)


def _attack_all(
    addresses: Sequence[tuple[str, int]], options: argparse.Namespace
) -> tuple[Sequence[Tally], float]:
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[Tally] = context.Queue()
    count, began_s = options.frames // len(addresses) + 1, time.perf_counter()
    end_s = began_s + options.minutes * 60
    children = [
        context.Process(
            target=_attacker, args=(address, f"{options.seed} {number}", count, end_s, results)
        )
        for number, address in enumerate(addresses)
    ]
    for child in children:
        child.start()
    tallies = [results.get() for _ in children]
    for child in children:
        child.join()
    return tallies, time.perf_counter() - began_s


def _show(tallies: Sequence[Tally], took_s: float) -> None:
    total = Tally(*map(sum, zip(*tallies, strict=True)))
    share = total.reached / max(total.total, 1)
    sys.stdout.write(
        f"frames={total.total} reached_a_handler={share:.0%} answered={total.answered} "
        f"refused={total.refused} waiting={total.waiting} seconds={took_s:.0f}\n"
    )


if __name__ == "__main__":
    sys.exit(main())
