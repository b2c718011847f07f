"""All connections: accepted, answered, paused while the log is full, closed when idle."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from broker.network.buffers import BufferPool, Inbox
from broker.network.call import Call
from broker.network.connection import ClientConnection
from broker.network.decisions.address_limits import AddressLimits
from broker.network.decisions.client_quotas import ClientQuotas
from broker.network.decisions.newcomers import Newcomers
from broker.network.decisions.rates import Windows
from broker.network.error_counts import ErrorCounts
from broker.network.latencies import Latencies
from broker.network.listeners import Listener
from broker.network.loop_holds import LoopHolds
from broker.network.mutes import Mutes
from broker.network.pauses import Pause
from broker.network.receive_budget import ReceiveBudget
from broker.network.refusals import Refusals
from broker.network.slow_readers import SlowReaders
from broker.network.slow_requests import SlowRequests
from broker.network.software import ConnectedSoftware
from broker.network.spare_buffers import SpareBuffers
from broker.network.timers import Timers
from logstore.config.address_overrides import parse_overrides
from logstore.config.broker import BrokerSettings
from logstore.config.login_settings import RECEIVE_BYTES_MAX
from logstore.errors import LogstoreError
from logstore.wiring.freed_memory import give_back

IDLE_CHECKS = 4
"""How often, within the time a connection may be idle, it is looked at."""

Dispatch = Callable[[ClientConnection, memoryview], None]


class Intake(Protocol):
    """The log's writer, as far as it says how many bytes are on their way."""

    @property
    def fenced(self) -> asyncio.Event: ...

    @property
    def is_full(self) -> bool: ...

    @property
    def committed_end(self) -> int: ...

    def when_committed(self, seq: int, waiter: Callable[[LogstoreError | None], None]) -> None: ...


FIRST_REQUEST_MS = "logstore.first.request.max.ms"


class _Arrivals:
    """Looks at connections without a request when the time of one is over."""

    def __init__(self, look: Callable[[], None]) -> None:
        self.timer_bucket = 0
        self.time_out = look


class Clients:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: BrokerSettings,
        writer: Intake,
        dispatch: Dispatch,
    ) -> None:
        self.loop = loop
        self._writer = writer
        self.dispatch = dispatch
        self.connections: dict[ClientConnection, None] = {}
        """In the order in which they came."""
        self.accepted_count = 0
        self.refusals = Refusals(loop.time)
        self.latencies = Latencies(loop.time)
        self.holds = LoopHolds(loop.time)
        self.slow_requests = SlowRequests(loop.time)
        self.errors = ErrorCounts()
        self.quotas = ClientQuotas(
            windows=Windows(
                settings.number("quota.window.num"),
                settings.number("quota.window.size.seconds"),
            ),
            controller_windows=Windows(
                settings.number("controller.quota.window.num"),
                settings.number("controller.quota.window.size.seconds"),
            ),
        )
        self.software = ConnectedSoftware()
        self.is_log_full = False
        """While it is, nothing more is taken from connections that produce."""
        self._settings = settings
        self._addresses = AddressLimits(0, {})
        self._produce_bytes_max = settings.number("socket.request.max.bytes")
        self._frame_bytes_max = settings.number("logstore.request.max.bytes")
        self._pool = BufferPool()
        self._corked: list[ClientConnection] = []
        self._held: dict[ClientConnection, None] = {}
        self._stopped = asyncio.Event()
        self._is_stopping = False
        self.timer_bucket = 0
        self._timers = Timers(loop)
        self._newcomers: Newcomers[ClientConnection] = Newcomers()
        self._arrivals = _Arrivals(self._close_late)
        self.mutes = Mutes(loop.time, self._timers)
        self._spare_buffers = SpareBuffers(self._pool, self._timers, give_back)
        self.slow_readers = SlowReaders(loop, self._timers)
        self.receive_budget = ReceiveBudget(loop, self._timers, 0, self.connections)
        settings.on_change(self._settings_changed)

    def _settings_changed(self) -> None:
        """Connections that there are stay, also those beyond a lower limit."""
        settings = self._settings
        self.requests_max = settings.number("logstore.connection.requests.max")
        self._connections_max = settings.number("max.connections")
        self._addresses.limit(
            settings.number("max.connections.per.ip"),
            parse_overrides(settings.text("max.connections.per.ip.overrides")),
        )
        self._idle_s = settings.number("connections.max.idle.ms") / 1000
        self._first_request_s = settings.number(FIRST_REQUEST_MS) / 1000
        self.receive_budget.limit(settings.number("queued.max.request.bytes"))
        self._timers.unset(self)
        self._timers.set(self, self._idle_s / IDLE_CHECKS)

    def limit_strangers(self, listener: Listener, inbox: Inbox) -> None:
        """Take small frames alone, until a login, by `inbox` of a connection to `listener`."""
        bytes_max = self._settings.of_listener(listener.name).number(RECEIVE_BYTES_MAX)
        inbox.limit(produce_bytes_max=bytes_max, frame_bytes_max=bytes_max)

    def lift_limit(self, inbox: Inbox) -> None:
        inbox.limit(
            produce_bytes_max=self._produce_bytes_max, frame_bytes_max=self._frame_bytes_max
        )

    def new_inbox(self) -> Inbox:
        return Inbox(
            self._pool,
            produce_bytes_max=self._produce_bytes_max,
            frame_bytes_max=self._frame_bytes_max,
            changed=self.receive_budget.changed,
        )

    @property
    def is_fenced(self) -> bool:
        return self._writer.fenced.is_set()

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping

    # Coming and going

    def admit(self, connection: ClientConnection) -> str | None:
        """Why `connection` may not stay, if it may not."""
        if self._is_stopping:
            return "the broker stops"
        if len(self.connections) >= self._connections_max and not self._has_made_room():
            return f"too many connections: max.connections={self._connections_max}"
        why = self._addresses.enter(connection.peer_host)
        if why is not None:
            return why
        if self.quotas.limits_connections:
            throttle_s = self.quotas.connected_s(connection.peer_host, self.loop.time())
            if throttle_s:
                self._addresses.leave(connection.peer_host)
                why = f"too many new connections of {connection.peer_host}: quota of its address"
                return None if self.mutes.close_later(connection, throttle_s, why) else why
        self.connections[connection] = None
        self._newcomers.enter(connection, self.loop.time(), self._first_request_s)
        if not self._arrivals.timer_bucket:
            self._timers.set(self._arrivals, self._first_request_s)
        self.software.changed(None, connection.software)
        self.accepted_count += 1
        return None

    def has_asked(self, connection: ClientConnection) -> None:
        """The first request of `connection` is there, or its login where it needs one: from now
        on it may be idle.
        """
        self._newcomers.leave(connection)

    def _has_made_room(self) -> bool:
        leaves = self._newcomers.make_room(self.loop.time())
        if leaves is None:
            return False
        leaves.refuse("no request, and others need its place")
        return True

    def _close_late(self) -> None:
        for connection in self._newcomers.take_late(self.loop.time(), self._first_request_s):
            connection.refuse(f"no request: {FIRST_REQUEST_MS}={self._first_request_s * 1000:.0f}")
        next_s = self._newcomers.next_s
        if next_s is not None:
            self._timers.set(self._arrivals, max(next_s - self.loop.time(), 0.0))

    def left(self, connection: ClientConnection) -> None:
        self._newcomers.leave(connection)
        if connection in self.connections:
            del self.connections[connection]
            self.software.changed(connection.software, None)
            self._addresses.leave(connection.peer_host)
        self._held.pop(connection, None)
        self.mutes.left(connection)
        self.receive_budget.left(connection)
        if self._is_stopping and not self.connections:
            self._stopped.set()

    def note_time(self, call: Call, took_s: float) -> None:
        """Work on `call` took so long, on the event loop or in a thread."""
        if self.quotas.limits_time:
            now_s = self.loop.time()
            self.quotas.used_time(call.principal, call.client_id, took_s, now_s)

    def note(self, call: Call, took_s: float) -> None:
        """A step of `call` held the event loop for so long."""
        self.holds.note(call, took_s)
        self.note_time(call, took_s)

    def time_out(self) -> None:
        """Close connections on which nothing came for too long."""
        oldest_s = self.loop.time() - self._idle_s
        for connection in [c for c in self.connections if c.active_s < oldest_s]:
            connection.abort()
        self._timers.set(self, self._idle_s / IDLE_CHECKS)

    # Answers

    def cork(self, connection: ClientConnection) -> None:
        """Let `connection` write at the end of this wake-up."""
        if not self._corked:
            self.loop.call_soon(self._uncork)
        self._corked.append(connection)

    def _uncork(self) -> None:
        corked, self._corked = self._corked, []
        for connection in corked:
            connection.uncork()

    # Holding producers back

    def look_for_room(self) -> None:
        """Hold producers back from now on if the log has too much on its way to the store."""
        writer = self._writer
        if writer.is_full and not self.is_log_full:
            self.is_log_full = True
            self._wait_for_room()

    def _wait_for_room(self, error: LogstoreError | None = None) -> None:
        writer = self._writer
        if error is None and writer.is_full:
            writer.when_committed(writer.committed_end, self._wait_for_room)
        else:
            self._release()

    def hold(self, connection: ClientConnection) -> None:
        connection.pause(Pause.LOG_FULL)
        self._held[connection] = None

    def _release(self) -> None:
        self.is_log_full = False
        held, self._held = self._held, {}
        for connection in held:
            connection.resume(Pause.LOG_FULL)

    # Ending

    def stop(self) -> None:
        """Read nothing more; answer the waiting requests."""
        self._is_stopping = True
        self.mutes.close_delayed()
        self._timers.close()
        for connection in tuple(self.connections):
            connection.stop()

    async def close(self, timeout_s: float) -> None:
        """Send the answers that are ready, then close every connection."""
        for connection in tuple(self.connections):
            connection.close()
        if self.connections:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._stopped.wait()
            except TimeoutError:
                pass
        for connection in tuple(self.connections):
            connection.abort()
