"""The lives of a broker, one epoch each: open the log, serve clients, hand over, commit.

    serve.py    a process: arguments, sockets, signals, the store      → `Host`
    life.py     its epochs, one after the other: `live_until_stopped`

A broker that was fenced, because it hung or could not be reached, starts again in the same process
as a new epoch; its successors lead its partitions by then. Nothing here opens a file, a socket or a
thread: `Host` holds everything that does, so the simulation runs this file as it is.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from broker.access.authorizer_choice import authorizer_of
from broker.access.logins import login_of_broker
from broker.answers.broker import Broker
from broker.cluster.controller import Controller
from broker.cluster.decisions.placement import Successors
from broker.cluster.peers import TcpPeers
from broker.cluster.settings import ControllerSettings
from broker.groups.coordinators import Ids
from broker.handlers.dispatch import dispatch
from broker.network.listeners import Listener
from broker.process.server import NOT_SECURED, Server
from broker.tls.secured_listener import SecuredListener
from broker.upkeep.retention_task import Retention
from broker.upkeep.trim_task import PERIOD_S, Trimming
from logstore.config.authorizer_settings import AUTHORIZER
from logstore.config.broker import BrokerSettings
from logstore.config.tls import INTER_BROKER
from logstore.epoch.draining import Successor
from logstore.epoch.log import BrokerInfo, Log, LogSettings
from logstore.epoch.table_queries import TableQueries
from logstore.errors import FREE_SPACE, Fenced, LogstoreError, Unavailable
from logstore.formats.broker_row import Address, BrokerStatus
from logstore.ports.clock import Clock
from logstore.protocol.access.acls import settle_acls
from logstore.protocol.rows.users import cluster_secret
from logstore.retry import pause_s
from logstore.wiring.open import OpenLog

OK, FAILED = 0, 1
STOP_TIMEOUT_S = 30.0
DRAIN_TIMEOUT_S = 20.0
GIVE_UP_TIMEOUT_S = 3.0
AGAIN_FIRST_S, AGAIN_MAX_S = 0.1, 30.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """The parts of an epoch that accepts connections."""

    broker: Broker
    controller: Controller
    peers: TcpPeers
    trimming: Trimming
    retention: Retention


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The parts that last as long as the process. `lock` names the lock file that it holds."""

    broker: int
    rack: str
    url: str
    """For the lines that name the log."""
    settings: BrokerSettings
    log_settings: LogSettings
    opened: OpenLog
    listeners: Sequence[Listener]
    tables: TableQueries
    clock: Clock
    stop: asyncio.Event
    """Set when the process is to end."""
    lock: str
    say: Callable[[str], None]
    """Takes the few lines that the broker's user reads."""
    on_serving: Callable[[Serving], None]
    """Called when an epoch accepts connections, before the line for its user."""
    trim_period_s: float = PERIOD_S
    secured: Mapping[str, SecuredListener] = field(default_factory=lambda: NOT_SECURED)
    """Listeners with TLS, by name."""
    ids: Ids | None = None
    """Draws the ids of group members; None: from the operating system."""


async def live_until_stopped(host: Host) -> int:
    """Live, again after each fence, until `host.stop` is set: the exit code.

    Raises `LogstoreError` if the first start fails, or if a later one fails for good.
    """
    clock, stop = host.opened.runner.clock, host.stop
    failures, has_lived = 0, False
    while True:
        began_s = clock.monotonic_s()
        reason = "another broker took over its partitions"
        try:
            code = await _live(host)
        except (Fenced, Unavailable) as error:
            if not (has_lived or isinstance(error, Fenced)):
                raise  # a first start that fails is for a person to look at
            code, reason = None, str(error)
        if code is not None:
            return code
        has_lived = True
        failures = 1 if clock.monotonic_s() - began_s > AGAIN_MAX_S else failures + 1
        wait_s = pause_s(failures, host.opened.runner.rng, AGAIN_FIRST_S, AGAIN_MAX_S)
        logger.warning(
            "starting again: broker=%d wait_s=%.2f reason=%s", host.broker, wait_s, reason
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await stop.wait()
        if stop.is_set():
            return OK


async def _live(host: Host) -> int | None:
    """One epoch, in one task group; its exit code, None when it was fenced."""
    code: int | None = FAILED
    try:
        async with asyncio.TaskGroup() as tasks:
            first, port = host.listeners[0].public_address
            places = {one.name: Address(*one.public_address) for one in host.listeners}
            me = BrokerInfo(
                host.broker,
                first,
                port,
                host.rack,
                host.lock,
                places,
                host.settings.published_topic_defaults,
            )
            start = _start(host, me, tasks)
            starting, stopping = tasks.create_task(start), tasks.create_task(host.stop.wait())
            await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                host.say(f"logstore: broker {host.broker} stopped before it served")
                code = OK
                raise _LifeEnded  # a start may end anywhere: the next one repeats it
            log = starting.result()
            code = await _accept(host, log, tasks)
            raise _LifeEnded
    except* _LifeEnded:
        pass
    except* LogstoreError as group:
        raise _first(group) from None
    return code


async def _start(host: Host, me: BrokerInfo, tasks: asyncio.TaskGroup) -> Log:
    """Raises, so that clients are not served, where what they may do cannot be read."""
    if host.settings.text(AUTHORIZER):
        await host.opened.runner.run(settle_acls())
    return await Log.start(host.opened, me, host.log_settings, tasks)


async def _secret(host: Host) -> bytes:
    """By which brokers log in to each other; empty where no listener asks for logins."""
    if not any(one.protocol.is_sasl for one in host.listeners):
        return b""
    return await host.opened.runner.run(cluster_secret())


def _peers(host: Host, log: Log, secret: bytes) -> TcpPeers:
    """By the listener that brokers have for each other: as it is secured."""
    name = host.settings.text(INTER_BROKER).upper()
    between = next((one for one in host.listeners if one.name == name), host.listeners[0])
    secured = host.secured.get(between.name)
    return TcpPeers(
        log.runner.clock,
        log.runner.rng,
        login_of_broker(host.broker, secret) if between.protocol.is_sasl else None,
        listener=between.name if name else "",
        context=(lambda: None) if secured is None else lambda: secured.peer_context,
    )


async def _accept(host: Host, log: Log, tasks: asyncio.TaskGroup) -> int | None:
    """Serve until the process is to stop (the exit code), or the chain is fenced (None)."""
    given = host.settings.copy()
    broker = Broker(
        log,
        given,
        authorizer=authorizer_of(given, log.rows),
        clock=host.clock,
        dispatch=dispatch,
        tasks=tasks,
        ids=host.ids,
        tables=host.tables,
        secret=(secret := await _secret(host)),
    )
    peers = _peers(host, log, secret)
    log.ask_others_by(peers.read_feed)
    settling = broker.leader_settling
    peers.on_lost, peers.on_back, settling.others = settling.lost, settling.back, peers
    controller = Controller(log, ControllerSettings.of(given), peers)

    def settings_changed() -> None:
        controller.settings = ControllerSettings.of(given)

    given.on_change(settings_changed)
    broker.controller = controller
    server = Server(broker, host.listeners, host.secured)
    await server.listen()
    tasks.create_task(broker.groups.run())
    running = tasks.create_task(controller.run())
    trimming = Trimming(
        log, given, lambda: controller.is_active, host.tables, period_s=host.trim_period_s
    )
    retention = Retention(log, given, host.tables)
    tasks.create_task(trimming.run())
    tasks.create_task(retention.run())
    host.on_serving(
        Serving(
            broker=broker,
            controller=controller,
            peers=peers,
            trimming=trimming,
            retention=retention,
        )
    )
    addresses = ", ".join(map(str, host.listeners))
    log_name = f"log {host.url}, cluster {broker.cluster_id}"
    host.say(f"{_name(host, log)} listening on {addresses} ({log_name})")
    ends = [tasks.create_task(host.stop.wait()), tasks.create_task(log.fenced.wait())]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if host.stop.is_set() and not log.fenced.is_set():
        await _hand_over(given, log)
    controller.stop()
    if not log.fenced.is_set():
        await asyncio.wait([running], timeout=GIVE_UP_TIMEOUT_S)
        return await _end(host, log, server)
    # Disconnect clients before releasing the lease: a broker that cannot reach the registry
    # cannot name the new leader.
    code = await _end(host, log, server)
    await asyncio.wait([running], timeout=GIVE_UP_TIMEOUT_S)
    return code


async def _hand_over(settings: BrokerSettings, log: Log) -> None:
    """Hand our partitions to other brokers, where there are any."""
    if not settings.flag("controlled.shutdown.enable"):
        return
    if _others_that_serve(log) and not log.has_no_room:
        await log.drain(DRAIN_TIMEOUT_S, lambda: _successors(log))


def _successors(log: Log) -> Successor:
    rows = [row for topic in log.topics.values() for row in topic.rows]
    successors = Successors(_others_that_serve(log), Counter(row.broker for row in rows))
    return lambda topic, number: successors.choose(topic.rows[number])


def _others_that_serve(log: Log) -> list[int]:
    return [
        broker
        for broker, row in log.live_brokers().items()
        if broker != log.me.broker and row.status is BrokerStatus.SERVING
    ]


async def _end(host: Host, log: Log, server: Server) -> int | None:
    """Commit all accepted batches, and print how it ended: the exit code, or None."""
    name = _name(host, log)
    if host.stop.is_set():
        for listener in host.listeners:
            listener.socket.close()
    is_committed = await server.stop(STOP_TIMEOUT_S)
    if log.fenced.is_set():
        host.say(f"{name} ended: another broker took over its partitions")
        return OK if host.stop.is_set() else None
    if not is_committed:
        action = FREE_SPACE if log.has_no_room else "check the store"
        host.say(f"{name} ended: some accepted batches could not be committed; {action}")
        return FAILED
    host.say(f"{name} stopped")
    return OK


def _name(host: Host, log: Log) -> str:
    return f"logstore: broker {host.broker} epoch {log.epoch}"


class _LifeEnded(Exception):
    """Ends the task group, heartbeat and all, once the log is closed."""


def _first(group: BaseExceptionGroup[LogstoreError]) -> LogstoreError:
    """One of the errors that a task group ended with; the others follow from it."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, LogstoreError)
    return error
