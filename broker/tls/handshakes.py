"""Handshakes of TLS, in two threads: a key of RSA-4096 takes 8 ms each time, off the event loop.

OpenSSL works without the interpreter's lock. A connection has one step waiting at most, so the
queue is bounded by the number of connections; what takes longer than `HANDSHAKE_S` from the accept
on is given up (`link.py`).
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from broker.tls.session import TlsSession
from logstore.errors import LogstoreError

THREADS = 2
HANDSHAKE_S = 10.0

OnStep = Callable[[str | None, str], None]
"""Called on the loop: the name of the principal if the handshake is done, and why it failed (empty:
it did not).
"""
Identify = Callable[[bytes | None], str]
"""The principal by a certificate. Raises `Invalid` where there is none."""


class Handshakes:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.counts: Counter[str] = Counter()
        """By outcome: done, failed, late; and steps, some two of each."""
        self._loop = loop
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tls")

    def step(
        self,
        session: TlsSession,
        data: bytes,
        *,
        is_wanted: Callable[[], bool],
        identify: Identify,
        then: OnStep,
    ) -> None:
        """One step in a thread, and `then` on the loop; `session` is the thread's until then.

        A step whose connection is gone by the time a thread is free (`is_wanted`) is left out.
        """

        def work() -> tuple[str | None, str]:
            if not is_wanted():
                return None, ""
            try:
                if not session.shake(data):
                    return None, ""
                return identify(session.peer_certificate), ""
            except ssl.SSLError as error:
                return None, _reason(error)
            except LogstoreError as error:
                return None, str(error)
            except (OSError, ValueError, MemoryError) as error:
                return None, type(error).__name__

        def done(future: Future[tuple[str | None, str]]) -> None:
            if future.cancelled() or self._loop.is_closed():
                return
            result = future.result()
            self._loop.call_soon_threadsafe(then, *result)

        self.counts["steps"] += 1
        try:
            self._threads.submit(work).add_done_callback(done)
        except RuntimeError:  # closed
            self._loop.call_soon(then, None, "the broker stops")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _reason(error: ssl.SSLError) -> str:
    """OpenSSL's word for it: bytes of the peer are not in it."""
    detail = getattr(error, "verify_message", "")
    reason = error.reason or type(error).__name__
    return f"{reason} ({detail})" if detail else reason
