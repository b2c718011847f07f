"""A broker process from start to end: what `python -m broker` and `logstore serve` run.

One line on stdout when it accepts connections, one when it has ended; everything else is log lines
on stderr. What stops a start is one line on stderr that says what to do.

A broker that was fenced, because it hung or could not be reached, starts again in the same process
as a new epoch; what it led is its successors' by then. Where it runs twice, one is refused.

    0    stopped by a signal, everything taken is committed and answered
    1    refused to start, or could not commit what it had taken
    2    the arguments make no sense
    130  interrupted before it could stop in good order
"""

import asyncio
import gc
import logging
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from broker.authorizer import AllowAll
from broker.broker import Broker
from broker.cluster.controller import Controller
from broker.cluster.peers import TcpPeers
from broker.cluster.placement import Heirs
from broker.cluster.settings import ControllerSettings
from broker.listeners import Listener, bind, parse_address, plan_listeners
from broker.log_lines import TEXT, configure_log_lines
from broker.retention import Retention
from broker.server import Server
from broker.store_watch import watch_store
from broker.trimming import Trimming
from logstore.clock import SystemClock
from logstore.config.broker import BrokerSettings
from logstore.errors import Fenced, Invalid, LogstoreError, OutcomeUnknown, Retryable
from logstore.host_lock import HostLock
from logstore.log.asked_tables import TablesInThreads
from logstore.log.history import HistorySettings
from logstore.log.log import FlushSettings, Log, LogSettings, Self
from logstore.open import OpenLog, open_log
from logstore.rows import Address, BrokerStatus

if TYPE_CHECKING:
    from broker.http.door import Door
    from logstore.history.delta import Tables

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
STOP_TIMEOUT_S = 30.0
DRAIN_TIMEOUT_S = 20.0
GIVE_UP_TIMEOUT_S = 3.0
AGAIN_FIRST_S, AGAIN_MAX_S = 0.1, 30.0
GC_THRESHOLDS = (50_000, 20, 100)
DIRECTORY_FLUSH_MS, BUCKET_FLUSH_MS = 10, 100
SIGNALS = (signal.SIGTERM, signal.SIGINT)

logger = logging.getLogger(__name__)

Wrap = Callable[[OpenLog], OpenLog]
"""Puts wrappers around a log's store or registry: meters, caches, faults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    url: str
    broker: int = 1
    listen: Sequence[str] = ()
    advertise: Sequence[str] = ()
    rack: str = ""
    http: str = ""
    """Where metrics and health are served; empty: nowhere."""
    log_format: str = TEXT
    state_directory: Path | None = None
    settings: BrokerSettings = field(default_factory=BrokerSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    """What lasts as long as the process; epochs of its broker come and go. `lock` is a name."""

    settings: ServeSettings
    opened: OpenLog
    listeners: Sequence[Listener]
    stop: asyncio.Event
    lock: str
    door: "Door | None"


def serve(settings: ServeSettings, *, wrap: Wrap | None = None) -> int:
    """Run a broker until a signal ends it; the exit code."""
    configure_log_lines(settings.log_format)
    try:
        return asyncio.run(_serve(settings, wrap))
    except Invalid as error:
        return _refuse(error, USAGE)
    except LogstoreError as error:
        return _refuse(error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED


async def _serve(settings: ServeSettings, wrap: Wrap | None) -> int:
    stop = _stop_on_signal()
    listeners: list[Listener] = []
    door: Door | None = None
    try:
        for place, advertised in plan_listeners(settings.listen, settings.advertise):
            listeners.append(bind(place, advertised))
        if settings.http:
            door = await _open_door(settings)
        opened = await open_log(
            settings.url,
            clock=SystemClock(),
            chance=random.Random(),
            storage=settings.settings.storage,
            state_directory=settings.state_directory,
        )
        try:
            ports = watch_store(wrap(opened) if wrap else opened, SystemClock())
            return await _serve_log(settings, ports, listeners, stop, door)
        finally:
            await opened.close()
    finally:
        for listener in listeners:
            listener.socket.close()
        if door is not None:
            door.close()


async def _open_door(settings: ServeSettings) -> "Door":
    """Metrics and health, from before the log is opened until the process ends."""
    from broker.http.door import Door  # a library of 5 MB that nobody else needs

    listener = bind(parse_address(settings.http), None, "--http")
    door = Door(settings.settings)
    await door.open(listener)
    return door


async def _serve_log(
    settings: ServeSettings,
    opened: OpenLog,
    listeners: Sequence[Listener],
    stop: asyncio.Event,
    door: "Door | None",
) -> int:
    """Hold the lock of this broker, and live until somebody says stop, again after each fence."""
    clock = opened.performer.clock
    lock = HostLock(opened.lock_directory / f"broker-{settings.broker}.lock")
    process = _Process(
        settings=settings,
        opened=opened,
        listeners=listeners,
        stop=stop,
        lock=lock.name,
        door=door,
    )
    wait_s, has_lived = AGAIN_FIRST_S, False
    try:
        while True:
            began_s = clock.monotonic_s()
            try:
                code = await _live(process)
            except (Fenced, Retryable, OutcomeUnknown) as error:
                if not (has_lived or isinstance(error, Fenced)):
                    raise  # a first start that fails is for a person to look at
                logger.warning("cannot start again yet: broker=%d %s", settings.broker, error)
                code = None
            if code is not None:
                return code
            has_lived = True
            if clock.monotonic_s() - began_s > AGAIN_MAX_S:
                wait_s = AGAIN_FIRST_S
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await stop.wait()
            if stop.is_set():
                return OK
            wait_s = min(2 * wait_s, AGAIN_MAX_S)
    finally:
        lock.release()


async def _live(process: _Process) -> int | None:
    """One epoch, in one task group; its exit code, None when it was fenced."""
    code: int | None = FAILED
    settings, opened, listeners = process.settings, process.opened, process.listeners
    try:
        async with asyncio.TaskGroup() as tasks:
            host, port = listeners[0].public_address
            places = {one.name: Address(*one.public_address) for one in listeners}
            me = Self(settings.broker, host, port, settings.rack, process.lock, places)
            start = Log.start(opened, me, _log_settings(settings.settings, opened), tasks)
            starting, stopping = tasks.create_task(start), tasks.create_task(process.stop.wait())
            await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                _say(f"logstore: broker {settings.broker} stopped before it served")
                code = OK
                raise _Ended  # a start may end anywhere: the next one repeats it
            log = starting.result()
            code = await _accept(process, log, tasks)
            raise _Ended
    except* _Ended:
        pass
    except* LogstoreError as group:
        raise _first(group) from None
    return code


async def _accept(process: _Process, log: Log, tasks: asyncio.TaskGroup) -> int | None:
    """Serve until somebody says stop (the exit code), or the chain is fenced (None)."""
    settings, performer = process.settings, log.performer
    broker = Broker(log, settings.settings, authorizer=AllowAll(), clock=SystemClock(), tasks=tasks)
    peers = TcpPeers(performer.clock, performer.chance)
    controller = Controller(log, ControllerSettings.of(settings.settings), peers)
    broker.controller = controller
    server = Server(broker, process.listeners)
    await server.listen()
    tasks.create_task(broker.groups.run())
    running = tasks.create_task(controller.run())
    trimming, retention = _upkeep(settings, log, lambda: controller.is_active)
    tasks.create_task(trimming.run())
    tasks.create_task(retention.run())
    if process.door is not None:
        process.door.watch(
            broker=broker,
            controller=controller,
            peers=peers,
            trimming=trimming,
            counts=process.opened.counts,
            stop=process.stop,
        )
    _collect_less()
    addresses = ", ".join(map(str, process.listeners))
    log_name = f"log {settings.url}, cluster {broker.cluster_id}"
    _say(f"{_name(process, log)} listening on {addresses} ({log_name})")
    ends = [tasks.create_task(process.stop.wait()), tasks.create_task(log.fenced.wait())]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if process.stop.is_set() and not log.fenced.is_set():
        await _hand_over(settings, log)
    controller.stop()
    if not log.fenced.is_set():
        await asyncio.wait([running], timeout=GIVE_UP_TIMEOUT_S)
        return await _end(process, log, server)
    # Clients first: who cannot give the lease up cannot tell them who leads either.
    code = await _end(process, log, server)
    await asyncio.wait([running], timeout=GIVE_UP_TIMEOUT_S)
    return code


async def _end(process: _Process, log: Log, server: Server) -> int | None:
    """Commit what was taken, and say how it ended: the exit code, or None."""
    name = _name(process, log)
    if process.stop.is_set():
        for listener in process.listeners:
            listener.socket.close()
    is_committed = await server.stop(STOP_TIMEOUT_S)
    if log.fenced.is_set():
        _say(f"{name} ended: another broker took over its partitions")
        return OK if process.stop.is_set() else None
    if not is_committed:
        _say(f"{name} ended: not all that was taken could be committed; look at the store")
        return FAILED
    _say(f"{name} stopped")
    return OK


def _name(process: _Process, log: Log) -> str:
    return f"logstore: broker {process.settings.broker} epoch {log.epoch}"


def _upkeep(
    settings: ServeSettings, log: Log, is_controller: Callable[[], bool]
) -> tuple[Trimming, Retention]:
    """What makes records and objects go. Where there are no tables Delta's library never loads."""
    given = settings.settings

    def open_tables() -> "Tables":
        from logstore.history.delta import Tables

        return Tables(settings.url, given.storage)

    tables = TablesInThreads(open_tables)
    return Trimming(log, given, is_controller, tables), Retention(log, given, tables)


async def _hand_over(settings: ServeSettings, log: Log) -> None:
    """Let other brokers lead what is led here, where there are any."""
    if not settings.settings.flag("controlled.shutdown.enable"):
        return
    others = [
        broker
        for broker, row in log.live_brokers().items()
        if broker != log.me.broker and row.status is BrokerStatus.SERVING
    ]
    if others:
        rows = [row for topic in log.topics.values() for row in topic.rows]
        heirs = Heirs(others, Counter(row.broker for row in rows))
        await log.drain(DRAIN_TIMEOUT_S, lambda topic, number: heirs.choose(topic.rows[number]))


def _log_settings(settings: BrokerSettings, opened: OpenLog) -> LogSettings:
    default_ms = DIRECTORY_FLUSH_MS if opened.is_in_directory else BUCKET_FLUSH_MS
    flush = FlushSettings(
        interval_s=settings.number("logstore.flush.interval.ms", default_ms) / 1000,
        segment_bytes_max=settings.number("logstore.segment.bytes"),
        backlog_bytes_max=settings.number("logstore.backlog.bytes"),
    )
    history = HistorySettings(
        cache_bytes_max=settings.number("logstore.history.cache.bytes"),
        threads=settings.number("logstore.history.threads"),
    )
    return LogSettings(
        flush=flush,
        cache_bytes_max=settings.number("logstore.cache.bytes"),
        history=history,
        delete_grace_s=settings.number("logstore.delete.grace.ms") / 1000,
    )


def _collect_less() -> None:
    """What was made at the start stays; requests make no cycles, so look for them seldom.

    At its default pace the collector takes a tenth of the time of small requests.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


class _Ended(Exception):
    """Ends the task group, heartbeat and all, once the log is closed."""


def _stop_on_signal() -> asyncio.Event:
    """Set by the first signal; a second one ends the process at once, which loses nothing."""
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            os._exit(INTERRUPTED)
        stop.set()

    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    return stop


def _first(group: BaseExceptionGroup[LogstoreError]) -> LogstoreError:
    """One of the errors that a task group ended with; the others follow from it."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, LogstoreError)
    return error


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _refuse(error: LogstoreError, code: int) -> int:
    sys.stderr.write(f"logstore: {error}\n")
    return code
