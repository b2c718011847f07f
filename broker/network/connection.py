"""One client's connection: frames in, answers out in the order of the requests.

    socket → Inbox → dispatch → Call ... answered → outbox → socket

Everything is a plain call on the event loop. Answers are written once per wake-up, however many
became ready (`send` is most of what a small request costs). A connection is not read while

    too many of its requests wait for an answer, or one reads the store,
    a Fetch arrives behind one that waits,
    its peer does not take the answers,
    it produces and the log cannot take more,
    a large request is arriving and there is no memory for it, or
    its client has used up a quota,

and bytes that had arrived by then stay where they are.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from broker.network.authorizer import ANONYMOUS
from broker.network.buffers import PRODUCE_KEY, Inbox
from broker.network.call import FETCH_KEY, NO_ANSWER, Call, Ending
from broker.network.decisions.chunks import next_chunk
from broker.network.decisions.client_quotas import ClientQuotas
from broker.network.decisions.referrals import Referrals
from broker.network.error_counts import ErrorCounts
from broker.network.latencies import Latencies
from broker.network.listeners import Listener
from broker.network.login_state import LoginState
from broker.network.loop_holds import LoopHolds
from broker.network.mutes import Mutes
from broker.network.pauses import Pause
from broker.network.receive_budget import ReceiveBudget
from broker.network.refusals import Refusals
from broker.network.slow_readers import SlowReaders
from broker.network.slow_requests import SLOW_S, SlowRequests
from broker.network.software import UNKNOWN, ConnectedSoftware, Software
from broker.network.turns import SLICE_S
from logstore.errors import Invalid
from logstore.wire.primitives import Buffer

UNSENT_BYTES_MAX = 1024 * 1024
_PRODUCE = PRODUCE_KEY.to_bytes(2, "big")
_FETCH = FETCH_KEY.to_bytes(2, "big")


class SharedByConnections(Protocol):
    """State and limits that all connections of a broker share (`clients.Clients`)."""

    loop: asyncio.AbstractEventLoop
    latencies: Latencies
    holds: LoopHolds
    errors: ErrorCounts
    quotas: ClientQuotas
    mutes: Mutes
    software: ConnectedSoftware
    slow_readers: SlowReaders
    slow_requests: SlowRequests
    receive_budget: ReceiveBudget
    refusals: Refusals
    requests_max: int
    is_log_full: bool

    @property
    def is_fenced(self) -> bool: ...

    def new_inbox(self) -> Inbox: ...

    def limit_strangers(self, listener: Listener, inbox: Inbox, /) -> None: ...

    def lift_limit(self, inbox: Inbox, /) -> None: ...

    def admit(self, connection: "ClientConnection", /) -> str | None: ...

    def has_asked(self, connection: "ClientConnection", /) -> None: ...

    def left(self, connection: "ClientConnection", /) -> None: ...

    def dispatch(self, connection: "ClientConnection", frame: memoryview, /) -> None: ...

    def note(self, call: Call, took_s: float, /) -> None: ...

    def look_for_room(self) -> None: ...

    def hold(self, connection: "ClientConnection", /) -> None: ...

    def cork(self, connection: "ClientConnection", /) -> None: ...


class ClientConnection(asyncio.BufferedProtocol):
    def __init__(self, clients: SharedByConnections, listener: Listener) -> None:
        self.listener = listener
        self.principal = ANONYMOUS
        self.groups: tuple[str, ...] = ()
        self.login: LoginState | None = None
        self.peer = "?"
        self.peer_host = ""
        self.software = UNKNOWN
        self.local_host = ""
        self.active_s = 0.0
        """When something last came in, by the loop's clock."""
        self.unsent_bytes = 0
        """Answers that are ready and not written yet."""
        self.referrals = Referrals()
        self.fetch_session: Ending | None = None
        self._clients = clients
        self._inbox: Inbox = clients.new_inbox()
        self._calls: deque[Call] = deque()
        self._outbox: deque[Buffer] = deque()
        self._transport: asyncio.Transport | None = None
        self._paused = 0
        self._is_blocked = False
        self._is_corked = False
        self._is_closed = False
        self._is_ending = False
        self._is_newcomer = True
        if listener.protocol.is_sasl:
            clients.limit_strangers(listener, self._inbox)

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.peer = _address(peer)
        self.peer_host = peer[0] if isinstance(peer, tuple) else ""
        name = transport.get_extra_info("sockname")
        self.local_host = name[0] if isinstance(name, tuple) else ""
        transport.set_write_buffer_limits(high=0)
        self.active_s = self._clients.loop.time()
        why = self._clients.admit(self)
        if why is not None:
            self.refuse(why)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closed = True
        self._clients.left(self)
        self._clients.slow_readers.left(self)
        self.unsent_bytes = 0
        self._inbox.close()
        self._outbox.clear()
        for call in self._calls:
            if call.held is not None:
                call.held.drop()
            if call.buffers is not None:
                call.buffers = NO_ANSWER
        self._calls.clear()
        if self.fetch_session is not None:
            self.fetch_session.end()
        _break_cycle(self._transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inbox.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.active_s = self._clients.loop.time()
        self._inbox.received(nbytes)
        self._pump()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._is_blocked = True
        self._clients.slow_readers.blocked(self)

    def resume_writing(self) -> None:
        self._is_blocked = False
        self._clients.slow_readers.unblocked(self)
        self._write()

    # Requests

    def _pump(self) -> None:
        """Dispatch the frames that have arrived, then write the answers that are ready."""
        clients, inbox, was_corked = self._clients, self._inbox, self._is_corked
        readers, before_s = clients.slow_readers, clients.loop.time()
        end_s = before_s + SLICE_S
        if clients.is_fenced:
            # Its successor's to answer: metadata of ours would send clients back to a dead address.
            self.stop()
        self._is_corked = True
        try:
            while not self._paused and not self._is_closed:
                frame = inbox.next()
                if frame is None:
                    break
                is_full = clients.is_log_full or readers.is_full
                if (is_full and self._is_held(frame)) or self._is_second_poll(frame):
                    inbox.put_back(frame)
                    break
                clients.dispatch(self, frame)
                before_s = self._measure(before_s)
                if before_s >= end_s:
                    self._let_others()
                    break
        except Invalid as error:
            self.refuse(str(error))
        finally:
            self._is_corked = was_corked
        if not self._paused:
            inbox.rest()
        if inbox.growth_bytes and not self._is_closed:
            clients.receive_budget.ask(self)
        clients.look_for_room()
        if not was_corked:
            self.flush()

    def admitted(self) -> None:
        """The peer has sent a request, or logged in where it has to: it may stay, and be idle."""
        self._is_newcomer = False
        self._clients.has_asked(self)
        if self.listener.protocol.is_sasl:
            self._clients.lift_limit(self._inbox)

    def _is_held(self, frame: memoryview) -> bool:
        """Whether this request must wait for the log to be stored, or for answers to be taken."""
        clients = self._clients
        if clients.is_log_full and frame[:2] == _PRODUCE:
            clients.hold(self)
            return True
        if clients.slow_readers.is_full and frame[:2] == _FETCH:
            self.pause(Pause.ANSWERS_FULL)
            clients.slow_readers.hold(self)
            return True
        return False

    def _is_second_poll(self, frame: memoryview) -> bool:
        """Whether this is a Fetch behind one that waits.

        Each may be one of 35,000 partitions, and load as many answers from the store.
        """
        calls = self._calls
        if not calls or frame[:2] != _FETCH:
            return False
        if all(call.buffers is not None or call.api.key != FETCH_KEY for call in calls):
            return False
        self.pause(Pause.POLLING)
        return True

    def _measure(self, before_s: float) -> float:
        """Note how long the last request held the loop since `before_s`; the time now."""
        clients = self._clients
        now_s = clients.loop.time()
        is_noted = clients.quotas.limits_time or now_s - before_s > clients.holds.bound_s
        if is_noted and self._calls:
            clients.note(self._calls[-1], now_s - before_s)
        return now_s

    def _let_others(self) -> None:
        """Go on after all that is ready had its turn: a read may bring thousands of requests."""
        self.pause(Pause.TURN)
        self.resume(Pause.TURN)

    # As `receive_budget.Receiver`

    @property
    def growth_bytes(self) -> int:
        return self._inbox.growth_bytes

    @property
    def unfinished_bytes(self) -> int:
        return 0 if self._is_closed else self._inbox.unfinished_bytes

    @property
    def is_read(self) -> bool:
        """Whether requests arrive as fast as the peer sends them, takes its answers, and may."""
        return not self._paused & ~(Pause.UNSENT | Pause.THROTTLED)

    @property
    def arrived_bytes(self) -> int:
        return self._inbox.arrived_bytes

    def hold_back(self) -> None:
        self.pause(Pause.MEMORY)

    def grow(self) -> None:
        self._inbox.grow()
        self.resume(Pause.MEMORY)

    def begin(self, call: Call) -> None:
        """Keep a place for the answer of `call`."""
        if self._is_newcomer and not self.listener.protocol.is_sasl:
            self.admitted()
        self._calls.append(call)
        if len(self._calls) >= self._clients.requests_max:
            self.pause(Pause.REQUESTS)

    def pause(self, why: Pause) -> None:
        if not self._paused and self._transport is not None and not self._is_closed:
            self._transport.pause_reading()
        self._paused |= why

    def resume(self, why: Pause) -> None:
        """Dispatch the bytes that wait here first, then read on."""
        if not self._paused & why:
            return
        self._paused &= ~why
        if self._paused or self._is_closed:
            return
        assert self._transport is not None
        self._transport.resume_reading()
        self._clients.loop.call_soon(self._pump_again)

    def suspend_requests(self) -> None:
        """Take no request before `resume_requests`: the last one is not done with its bytes."""
        self.pause(Pause.CHECKING)

    def resume_requests(self) -> None:
        self.resume(Pause.CHECKING)

    def hold_back_throttled(self) -> None:
        """Take no request before the throttled one is answered, and its time is over."""
        self._clients.mutes.hold(self)

    def time_throttle_ms(self, call: Call) -> int:
        """How long its client is throttled for the time that its requests took."""
        clients = self._clients
        if not clients.quotas.limits_time:
            return 0
        return clients.quotas.request_ms(self.principal, call.client_id, clients.loop.time())

    def release_fetch(self) -> None:
        self.resume(Pause.ANSWERS_FULL)

    def _pump_again(self) -> None:
        if not self._is_closed:
            self._pump()

    def set_software(self, software: Software) -> None:
        """The client said what it is."""
        if not self._is_closed:
            self._clients.software.changed(self.software, software)
            self.software = software

    def note_errors(self, api: str, response: Any) -> None:
        self._clients.errors.look_at(api, response)

    def count_errors(self, api: str, codes: Mapping[int, int]) -> None:
        self._clients.errors.count(api, codes)

    # Answers

    def answered(self, call: Call) -> None:
        """`call` has its answer; it is written at the end of this wake-up if its turn has come."""
        if self._is_closed:
            call.buffers = NO_ANSWER
            return
        if call.throttle_ms:
            self._clients.mutes.mute(self, call.throttle_ms / 1000)
        if self._paused & Pause.POLLING and call.api.key == FETCH_KEY:
            self.resume(Pause.POLLING)
        size = sum(map(len, call.buffers or ()))
        self.unsent_bytes += size
        self._clients.slow_readers.changed(size)
        if self.unsent_bytes > UNSENT_BYTES_MAX:
            self.pause(Pause.UNSENT)
        if not self._is_corked and self._calls and self._calls[0] is call:
            self._is_corked = True
            self._clients.cork(self)

    def uncork(self) -> None:
        self._is_corked = False
        if not self._is_closed:
            self.flush()

    def _note_answered(self, call: Call, count: int) -> None:
        """So many of its API, which came in with it."""
        took_s = self._clients.latencies.answered(call.api, call.began_s, count)
        if took_s > SLOW_S:
            self._clients.slow_requests.note(call, took_s)

    def flush(self) -> None:
        calls, outbox = self._calls, self._outbox
        last: Call | None = None
        count = 0
        while calls and (buffers := calls[0].buffers) is not None:
            call = calls.popleft()
            outbox.extend(buffers)
            call.buffers = NO_ANSWER  # whatever still refers to the call holds no bytes by it
            if last is not None and call.began_s == last.began_s and call.api is last.api:
                count += 1
                continue
            if last is not None:
                self._note_answered(last, count)
            last, count = call, 1
        if last is not None:
            self._note_answered(last, count)
        if self._paused & Pause.REQUESTS and len(calls) < self._clients.requests_max:
            self.resume(Pause.REQUESTS)
        if outbox and not self._is_blocked:
            self._write()

    def _write(self) -> None:
        """Hand buffers to the transport while it passes them straight on to the socket."""
        outbox, transport = self._outbox, self._transport
        assert transport is not None
        while outbox and not self._is_blocked and not self._is_closed:
            chunk = next_chunk(outbox)
            self.unsent_bytes -= len(chunk)
            self._clients.slow_readers.changed(-len(chunk))
            transport.write(chunk)
        if self._paused & Pause.UNSENT and self.unsent_bytes <= UNSENT_BYTES_MAX:
            self.resume(Pause.UNSENT)
        if self._is_ending:
            self._close_if_sent()

    def copy_unsent(self) -> int:
        """As `slow_readers.BlockedConnection`."""
        copied = 0
        for _ in range(len(self._outbox)):
            buffer = self._outbox.popleft()
            if isinstance(buffer, memoryview):
                copied += len(buffer)
                buffer = bytes(buffer)
            self._outbox.append(buffer)
        return copied

    @property
    def clients(self) -> SharedByConnections:
        return self._clients

    @property
    def transport(self) -> asyncio.Transport | None:
        return self._transport

    @property
    def outbox(self) -> Sequence[Buffer]:
        """Answers, or parts of them, that are not written yet."""
        return tuple(self._outbox)

    # Ending

    @property
    def is_idle(self) -> bool:
        """Whether nothing is owed to the peer."""
        return not self._calls and not self._outbox and not self._is_blocked

    @property
    def descriptor(self) -> int | None:
        """As `departures.Descriptor`."""
        if self._is_closed or self._transport is None:
            return None
        sock = self._transport.get_extra_info("socket")
        number = -1 if sock is None else sock.fileno()
        return number if number >= 0 else None

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def refuse(self, why: str) -> None:
        """Close, saying why; answers that are ready leave if the peer takes them now."""
        if self._is_closed:
            return
        self._clients.refusals.note(self.peer, why)
        self.close()
        self._is_closed = True
        if self._outbox:
            self.abort()

    def abort(self) -> None:
        self._is_closed = True
        if self._transport is not None:
            self._transport.abort()

    def stop(self) -> None:
        """Read no more, and answer waiting requests with the data that there is."""
        self.pause(Pause.STOPPING)
        for call in tuple(self._calls):
            if call.held is not None:
                call.held.finish()

    def close(self) -> None:
        """Close once the answers that are ready have left."""
        self._is_ending = True
        if not self._is_closed:
            self.flush()
            self._close_if_sent()

    def _close_if_sent(self) -> None:
        if not self._outbox and self._transport is not None and not self._transport.is_closing():
            self._transport.close()


def _break_cycle(transport: asyncio.Transport | None) -> None:
    """asyncio's transport holds a method of its own, by which it reads: closed and forgotten, it
    would stay in memory, with its socket, until the collector has looked at everything.
    """
    getattr(transport, "__dict__", {}).pop("_read_ready_cb", None)


def _address(name: object) -> str:
    if isinstance(name, tuple) and len(name) >= 2:
        return f"{name[0]}:{name[1]}"
    return "?"
