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
import logging
import os
import random
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from broker.network.listeners import Listener, bind, parse_address, plan_listeners
from broker.process.collector import Collector
from broker.process.descriptors import limit_connections, raise_limit
from broker.process.life import FAILED, Host, Serving, live_until_stopped
from broker.process.log_lines import TEXT, configure_log_lines
from broker.process.log_writer import LogWriter
from broker.process.number import free_number, given_number
from broker.process.platform import Platform, resolve_advertised, resolve_rack
from broker.process.posture import check_posture, open_listeners
from broker.process.posture_warning import PostureWarning
from broker.process.secured_listeners import SecuredListeners
from broker.process.start_line import TEXT as TEXT_AT_START
from broker.process.start_line import start_values
from broker.upkeep.compaction_child import CompactionChild, child_environment, compact_command
from broker.upkeep.compaction_counts import CompactionCounts
from broker.upkeep.store_watch import watch_store
from logstore.cli.decisions.printable import printable
from logstore.cli.main import installed_version
from logstore.config.broker import BrokerSettings
from logstore.config.compaction_interval import parse_every
from logstore.config.listener_security import PROTOCOL_MAP, protocol_of
from logstore.epoch.log import FlushSettings, LogSettings
from logstore.epoch.table_queries import ThreadedTableQueries
from logstore.errors import Invalid, LogstoreError
from logstore.ports.clock import SystemClock
from logstore.reading.brokers.history import HistorySettings
from logstore.stores.location import DirectoryLocation
from logstore.stores.modes import CLOSE, open_to_others
from logstore.wiring.freed_memory import FreedMemory, MiB
from logstore.wiring.open import OpenLog, open_log

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from broker.http.app import HttpApp
    from logstore.history.delta import Tables

USAGE, INTERRUPTED = 2, 130
DIRECTORY_FLUSH_MS, BUCKET_FLUSH_MS = 10, 100
SIGNALS = (signal.SIGTERM, signal.SIGINT)
FREED = FreedMemory(kept_bytes=64 * MiB)
"""A window of staged batches (`protocol.sinks.adopt_plan`) is read into memory of the last."""

Wrap = Callable[[OpenLog], OpenLog]
"""Puts wrappers around a log's store or registry: meters, caches, faults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    url: str
    broker: int | None = 1
    """None: the lowest number that is free."""
    listen: Sequence[str] = ()
    advertise: Sequence[str] = ()
    """`auto` in it, and as the rack, is what the platform says (`platform.py`)."""
    rack: str = ""
    http: str = ""
    """Where metrics and health are served; empty: nowhere."""
    log_format: str = TEXT
    state_directory: Path | None = None
    settings: BrokerSettings = field(default_factory=BrokerSettings)


def serve(settings: ServeSettings, *, wrap: Wrap | None = None) -> int:
    """Run a broker until a signal ends it; the exit code."""
    FREED.apply()
    lines = configure_log_lines(settings.log_format)
    limited = limit_connections(settings.settings, raise_limit())
    settings = replace(settings, settings=limited)
    try:
        settings = _resolved(settings)
        return asyncio.run(_serve(settings, wrap, lines))
    except Invalid as error:
        return _refuse(lines, error, USAGE)
    except LogstoreError as error:
        return _refuse(lines, error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED


def _resolved(settings: ServeSettings) -> ServeSettings:
    """With the address and the zone that the platform says. Raises `Invalid`, `Refused`."""
    platform = Platform(os.environ)
    advertise = resolve_advertised(settings.advertise, settings.listen, platform)
    return replace(settings, advertise=advertise, rack=resolve_rack(settings.rack, platform))


async def _serve(settings: ServeSettings, wrap: Wrap | None, lines: LogWriter) -> int:
    stop = _stop_on_signal(lines)
    listeners: list[Listener] = []
    http: HttpApp | None = None
    secured: SecuredListeners | None = None
    counts = CompactionCounts()
    planned = plan_listeners(settings.listen, settings.advertise)
    places = [place for place, _ in planned]
    check_posture(places, settings.settings)
    standing_open = open_listeners(places, settings.settings)
    warning = PostureWarning(asyncio.get_running_loop(), standing_open)
    try:
        for place, advertised in planned:
            protocol = protocol_of(place.name, settings.settings.text(PROTOCOL_MAP))
            listeners.append(bind(place, advertised, protocol=protocol))
        secured = SecuredListeners(listeners, settings.settings, SystemClock())
        if settings.http:
            http = await _open_http(settings, counts, len(standing_open))
        warning.begin()
        opened = await open_log(
            settings.url,
            clock=SystemClock(),
            rng=random.Random(),
            storage=settings.settings.storage,
            state_directory=settings.state_directory,
        )
        try:
            ports = watch_store(wrap(opened) if wrap else opened, SystemClock())
            compaction = _compaction(settings, stop, counts)
            return await _serve_log(settings, ports, secured, stop, http, compaction, lines.say)
        finally:
            await opened.close()
    finally:
        warning.end()
        for listener in listeners:
            listener.socket.close()
        if secured is not None:
            secured.close()
        if http is not None:
            http.close()


async def _open_http(
    settings: ServeSettings, counts: CompactionCounts, open_count: int
) -> "HttpApp":
    """Metrics and health, from before the log is opened until the process ends."""
    from broker.http.app import HttpApp  # a library of 5 MB, needed here alone

    listener = bind(parse_address(settings.http), None, "--http")
    http = HttpApp(settings.settings, counts, open_count)
    await http.open(listener)
    return http


def _compaction(
    settings: ServeSettings, stop: asyncio.Event, counts: CompactionCounts
) -> CompactionChild | None:
    """The child process that compacts, if one is wanted of this broker."""
    every = settings.settings.text("logstore.compaction.every")
    if parse_every(every) is None:
        return None
    return CompactionChild(
        compact_command(settings.url, every),
        child_environment(os.environ, settings.settings.storage),
        counts=counts,
        stop=stop,
        clock=SystemClock(),
        rng=random.Random(),
    )


async def _serve_log(
    settings: ServeSettings,
    opened: OpenLog,
    secured: SecuredListeners,
    stop: asyncio.Event,
    http: "HttpApp | None",
    compaction: CompactionChild | None,
    say: Callable[[str], None],
) -> int:
    """Hold the lock of this broker, and live until it is stopped, again after each fence."""
    if settings.broker is None:
        taken = await free_number(opened)
    else:
        taken = given_number(opened, settings.broker)

    collector = Collector()

    async def live(has_started: Callable[[], object]) -> int:
        def on_serving(serving: Serving) -> None:
            if http is not None:
                http.watch(
                    broker=serving.broker,
                    controller=serving.controller,
                    peers=serving.peers,
                    trimming=serving.trimming,
                    counts=opened.counts,
                    times=opened.times,
                    stop=stop,
                )
            if compaction is not None:
                compaction.watch(serving.controller)
            has_started()
            _log_start(settings, opened, serving.broker.log.format_level)
            collector.begin(asyncio.get_running_loop())

        return await live_until_stopped(
            Host(
                broker=taken.number,
                rack=settings.rack,
                url=settings.url,
                settings=settings.settings,
                log_settings=_log_settings(settings.settings, opened),
                opened=opened,
                listeners=secured.listeners,
                secured=secured.by_name,
                tables=_tables(settings),
                clock=SystemClock(),
                stop=stop,
                lock=taken.lock.name,
                say=say,
                on_serving=on_serving,
            )
        )

    try:
        living = taken.renewed(opened.runner, live)
        return await (living if compaction is None else compaction.beside(living))
    finally:
        collector.end()
        taken.lock.release()


def _log_start(settings: ServeSettings, opened: OpenLog, level: int) -> None:
    """Not before the broker serves: of a start that is refused its reason is the one line."""
    registry = opened.identity.registry
    version = installed_version()
    values = start_values(version, level, settings.url, registry, settings.settings)
    logger.info(TEXT_AT_START, *values)
    if isinstance(opened.location, DirectoryLocation):
        for path in open_to_others(opened.location.directory):
            logger.warning("every user of this machine can read the log: path=%s; %s", path, CLOSE)


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
        index_cache_bytes_max=settings.number("logstore.index.cache.bytes"),
        read_ahead_bytes_max=settings.number("logstore.read.ahead.bytes"),
        history=history,
        producer_expiration_ms=settings.number("producer.id.expiration.ms"),
        delete_grace_s=settings.number("logstore.delete.grace.ms") / 1000,
    )


def _stop_on_signal(lines: LogWriter) -> asyncio.Event:
    """Set by the first signal; a second one ends the process at once, which loses nothing."""
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            lines.flush()
            os._exit(INTERRUPTED)
        stop.set()

    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    return stop


def _refuse(lines: LogWriter, error: LogstoreError, code: int) -> int:
    lines.flush()
    sys.stderr.write(f"logstore: {printable(str(error))}\n")
    return code
