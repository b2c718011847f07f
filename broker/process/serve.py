"""A broker process from start to end: run by `python -m broker` and `logstore serve`.

One line on stdout when it accepts connections, one when it has ended; everything else is log lines
on stderr. A refused start is one line on stderr that says what to do.

A broker that was fenced, because it hung or could not be reached, starts again in the same process
as a new epoch; by then successors lead its partitions. Where it runs twice, one is refused.

    0    stopped by a signal, all accepted batches are committed and answered
    1    refused to start, or could not commit all accepted batches
    2    the arguments make no sense
    130  interrupted before it could stop in good order
"""

import asyncio
import gc
import os
import random
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from broker.network.listeners import Listener, bind, parse_address, plan_listeners
from broker.process.descriptors import limit_connections, raise_limit
from broker.process.life import FAILED, Host, Serving, live_until_stopped
from broker.process.log_lines import TEXT, configure_log_lines
from broker.upkeep.store_watch import watch_store
from logstore.config.broker import BrokerSettings
from logstore.epoch.log import FlushSettings, LogSettings
from logstore.epoch.table_queries import ThreadedTableQueries
from logstore.errors import Invalid, LogstoreError
from logstore.ports.clock import SystemClock
from logstore.reading.history import HistorySettings
from logstore.wiring.host_lock import HostLock
from logstore.wiring.open import OpenLog, open_log

if TYPE_CHECKING:
    from broker.http.app import HttpApp
    from logstore.history.delta import Tables

USAGE, INTERRUPTED = 2, 130
GC_THRESHOLDS = (50_000, 20, 100)
DIRECTORY_FLUSH_MS, BUCKET_FLUSH_MS = 10, 100
SIGNALS = (signal.SIGTERM, signal.SIGINT)

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


def serve(settings: ServeSettings, *, wrap: Wrap | None = None) -> int:
    """Run a broker until a signal ends it; the exit code."""
    configure_log_lines(settings.log_format)
    limited = limit_connections(settings.settings, raise_limit())
    settings = replace(settings, settings=limited)
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
    http: HttpApp | None = None
    try:
        for place, advertised in plan_listeners(settings.listen, settings.advertise):
            listeners.append(bind(place, advertised))
        if settings.http:
            http = await _open_http(settings)
        opened = await open_log(
            settings.url,
            clock=SystemClock(),
            rng=random.Random(),
            storage=settings.settings.storage,
            state_directory=settings.state_directory,
        )
        try:
            ports = watch_store(wrap(opened) if wrap else opened, SystemClock())
            return await _serve_log(settings, ports, listeners, stop, http)
        finally:
            await opened.close()
    finally:
        for listener in listeners:
            listener.socket.close()
        if http is not None:
            http.close()


async def _open_http(settings: ServeSettings) -> "HttpApp":
    """Metrics and health, from before the log is opened until the process ends."""
    from broker.http.app import HttpApp  # a library of 5 MB, needed here alone

    listener = bind(parse_address(settings.http), None, "--http")
    http = HttpApp(settings.settings)
    await http.open(listener)
    return http


async def _serve_log(
    settings: ServeSettings,
    opened: OpenLog,
    listeners: Sequence[Listener],
    stop: asyncio.Event,
    http: "HttpApp | None",
) -> int:
    """Hold the lock of this broker, and live until it is stopped, again after each fence."""

    def on_serving(serving: Serving) -> None:
        if http is not None:
            http.watch(
                broker=serving.broker,
                controller=serving.controller,
                peers=serving.peers,
                trimming=serving.trimming,
                counts=opened.counts,
                stop=stop,
            )
        collect_less()

    lock = HostLock(opened.lock_directory / f"broker-{settings.broker}.lock")
    try:
        return await live_until_stopped(
            Host(
                broker=settings.broker,
                rack=settings.rack,
                url=settings.url,
                settings=settings.settings,
                log_settings=_log_settings(settings.settings, opened),
                opened=opened,
                listeners=listeners,
                tables=_tables(settings),
                clock=SystemClock(),
                stop=stop,
                lock=lock.name,
                say=_say,
                on_serving=on_serving,
            )
        )
    finally:
        lock.release()


def _tables(settings: ServeSettings) -> ThreadedTableQueries:
    """Where there are no tables Delta's library never loads."""

    def open_tables() -> "Tables":
        from logstore.history.delta import Tables

        return Tables(settings.url, settings.settings.storage)

    return ThreadedTableQueries(open_tables)


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
        read_ahead_bytes_max=settings.number("logstore.read.ahead.bytes"),
        history=history,
        delete_grace_s=settings.number("logstore.delete.grace.ms") / 1000,
    )


def collect_less() -> None:
    """Objects made at the start stay; requests make no cycles, so collect seldom.

    At its default pace the collector takes a tenth of the time of small requests.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


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


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _refuse(error: LogstoreError, code: int) -> int:
    sys.stderr.write(f"logstore: {error}\n")
    return code
