"""All that handlers use, one per process: log, settings, rights, counts, slow work."""

import asyncio
import base64
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Protocol

from broker.access.audit import Denials
from broker.access.logins import Logins
from broker.answers.adopt_counts import AdoptCounts
from broker.answers.alarms import Alarms
from broker.answers.decisions.alike_names import AlikeNames
from broker.answers.decisions.fetch_sessions import FetchSessions
from broker.answers.decisions.topic_rules import TopicRules
from broker.answers.leader_settling import LeaderSettling
from broker.answers.metadata_bytes import MetadataBytes
from broker.answers.partition_sizes import PartitionSizes
from broker.answers.pending_produces import PendingProduces
from broker.answers.staged_fronts import StagedFronts
from broker.answers.staged_manifests import StagedManifests
from broker.answers.topic_watch import TopicWatch
from broker.answers.traffic import Traffic
from broker.cluster.new_partitions import RunningLoad
from broker.groups.coordinators import Coordinators, Ids
from broker.network.authorizer import (
    CLUSTER,
    CLUSTER_OPERATIONS,
    Authorizer,
    Operation,
    Resource,
    ResourceKind,
)
from broker.network.call import Call, PendingAnswer
from broker.network.clients import Clients
from broker.network.connection import ClientConnection
from broker.network.timers import Timers
from broker.network.turns import Turns
from logstore.config.broker import BrokerSettings
from logstore.config.login_settings import FAILED_DELAY_MS
from logstore.epoch.log import Log, Topic
from logstore.epoch.stamps import StampClock
from logstore.epoch.table_queries import TableQueries
from logstore.errors import LogstoreError
from logstore.formats.config_row import ALL_BROKERS
from logstore.formats.lease_row import LeaseRow
from logstore.ports.clock import Clock

CHANGES_MAX = 32
"""Requests that change topics at once, and changes that go on at once."""

RECORD_CHECKS_MAX = 2
"""Requests whose records are unpacked at once, each up to 64 MiB at a time."""

ADOPTIONS_MAX = 2
"""Requests that copy staged batches at once, each with up to 64 MiB of them in memory."""

RULES_SPARE = 64

logger = logging.getLogger(__name__)


Work = Callable[[], Coroutine[Any, Any, None]]


class ControllerHolder(Protocol):
    """The controller of this process, as far as it names the lease's holder."""

    @property
    def holder(self) -> int | None: ...

    @property
    def lease(self) -> LeaseRow | None: ...


class Dispatch(Protocol):
    """Takes each request of a connection to its handler (`broker.handlers.dispatch`)."""

    def __call__(
        self, broker: "Broker", connection: ClientConnection, frame: memoryview, /
    ) -> None: ...


class Broker:
    def __init__(
        self,
        log: Log,
        settings: BrokerSettings,
        *,
        authorizer: Authorizer,
        clock: Clock,
        dispatch: Dispatch,
        tasks: asyncio.TaskGroup,
        ids: Ids | None = None,
        tables: TableQueries | None = None,
        secret: bytes = b"",
    ) -> None:
        """`secret` is that of the cluster, where a listener asks for logins. `ids` draws the ids of
        group members; None: from the operating system. `tables`: of the topics; None: their sizes
        are not counted.
        """
        self.log, self.settings, self.clock = log, settings, clock
        self.stamps: Clock = StampClock(clock, log.writer)
        """For records whose age decides later when they are deleted: never behind the store's."""
        self.node_id, self.rack = log.me.broker, log.me.rack or None
        self.cluster_id = base64.urlsafe_b64encode(log.cluster_id).decode().rstrip("=")
        """As Kafka shows it: 22 characters."""
        self.loop = asyncio.get_running_loop()
        self.clients = Clients(self.loop, settings, log.writer, partial(dispatch, self))
        self.fetch_sessions = FetchSessions(
            slots_max=settings.number("max.incremental.fetch.session.cache.slots"),
            partitions_max=settings.number("logstore.fetch.session.partitions.max"),
        )
        self.timers = Timers(self.loop)
        self.turns = Turns(self.loop, self.clients)
        """Long work on the event loop goes in slices, one after the other."""
        self.pending_produces = PendingProduces(self.loop, log.writer, self.timers, self.turns)
        self.alarms = Alarms(clock)
        self._make_places(settings)
        self.staged_manifests = StagedManifests(log.runner, log.cluster_id, self.store_reads)
        self.staged_fronts = StagedFronts(log.runner, log.cluster_id, self.store_reads, self.turns)
        self.adopt_counts = AdoptCounts()
        self.sizes = PartitionSizes(log, self.turns, tables)
        self.alike_names = AlikeNames(log.topics)
        self.load = RunningLoad(log.topics.values())
        self.being_created: set[str] = set()
        """Topics whose automatic creation has begun."""
        self.metadata = MetadataBytes()
        self.traffic = Traffic(settings.number("logstore.metrics.names.max"))
        self.topic_watch, self.leader_settling = TopicWatch(self.loop), LeaderSettling(log, tasks)
        log.on_change(self._topic_changed)
        self.tasks = tasks
        self.groups = Coordinators(
            log, settings, timers=self.timers, clock=self.stamps, tasks=tasks, ids=ids
        )
        self.controller: ControllerHolder | None = None
        self.logins = Logins(settings, log.rows, clock, secret, lambda: self.clients.connections)
        self._authorizer, self.denials = authorizer, Denials(clock, self.loop.time)
        self._judged_version = authorizer.version
        """Of the rights by which requests that wait were judged."""
        self._rules: dict[bytes, TopicRules] = {}
        settings.on_change(self._settings_changed)
        log.rows.watch(self._rows_changed)

    def _make_places(self, settings: BrokerSettings) -> None:
        """Bounds of what runs at once."""
        self.waiting_fetches: set[PendingAnswer] = set()
        """Fetches that wait for records."""
        self.store_reads = asyncio.Semaphore(settings.number("logstore.cold.reads.max"))
        """How many reads of store or registry may run at once."""
        self.look_ups = asyncio.Semaphore(settings.number("logstore.cold.reads.max"))
        """How many partitions may be looked up by time at once, of all requests."""
        self.record_checks = asyncio.Semaphore(RECORD_CHECKS_MAX)
        self.adoptions = asyncio.Semaphore(ADOPTIONS_MAX)
        self.changes = asyncio.Semaphore(CHANGES_MAX)
        self.begun = asyncio.Semaphore(CHANGES_MAX)
        """How many changes may be under way, also those whose requests wait no longer."""

    @property
    def rights_version(self) -> int:
        """Another one after each change of clients' rights."""
        return self._authorizer.version

    def allows(self, call: Call, operation: Operation, kind: ResourceKind, name: str) -> bool:
        return self._is_granted(call, operation, Resource(kind, name))

    def sees(self, call: Call, operation: Operation, kind: ResourceKind, name: str) -> bool:
        """The same where a client did not ask for it: a refusal is not its doing.

        For the items of a list, and for rights of which another one does as well.
        """
        return self._allows(call, operation, Resource(kind, name))

    def allows_on(self, call: Call, operation: Operation, topic: Topic) -> bool:
        """The same as `allows`, for the hot paths."""
        return self._is_granted(call, operation, self.rules(topic).resource)

    def _is_granted(self, call: Call, operation: Operation, resource: Resource) -> bool:
        """Whether it is allowed; a denial is counted, and audited."""
        may = self._allows(call, operation, resource)
        if not may:
            client = call.connection
            self.denials.note(call.api.name, client.principal, client.peer, operation, resource)
        return may

    def _allows(self, call: Call, operation: Operation, resource: Resource) -> bool:
        client = call.connection
        return self._authorizer.authorize(
            client.principal, client.peer_host, operation, resource, client.groups
        )

    def allows_on_any(self, call: Call, operation: Operation, kind: ResourceKind) -> bool:
        """Whether the client may do that with some resource of the kind, there or not yet."""
        client = call.connection
        may = self._authorizer.authorize_on_any(
            client.principal, client.peer_host, operation, kind, client.groups
        )
        if not may:
            some = Resource(kind, "*")
            self.denials.note(call.api.name, client.principal, client.peer, operation, some)
        return may

    @property
    def has_acls(self) -> bool:
        """Whether there are ACLs, which clients may see and change."""
        return self._authorizer.has_acls

    def refuse_login(self, call: Call, why: str) -> None:
        """End the connection when its answer has left, and not at once: guessing takes time."""
        connection, text = call.connection, f"login failed: {why}"
        assert isinstance(connection, ClientConnection)
        delay_s = self.settings.number(FAILED_DELAY_MS) / 1000
        if not self.clients.mutes.close_later(connection, delay_s, text):
            self.loop.call_soon(connection.refuse, text)

    def allowed_bits(
        self, call: Call, operations: Sequence[Operation], kind: ResourceKind, name: str
    ) -> int:
        """Which of `operations` are allowed: bit n for the operation of number n (KIP-430)."""
        return sum(1 << one for one in operations if self.sees(call, one, kind, name))

    def cluster_bits(self, call: Call) -> int:
        """Which operations on the cluster are allowed; none to a client that may not see it."""
        if not self.sees(call, Operation.DESCRIBE, *CLUSTER):
            return 0
        return self.allowed_bits(call, CLUSTER_OPERATIONS, *CLUSTER)

    # The cluster

    @property
    def controller_id(self) -> int:
        """Id of the controller; where it is unknown, that of this broker: every broker takes every
        request."""
        holder = None if self.controller is None else self.controller.holder
        return holder if holder in self.log.live_brokers() and holder is not None else self.node_id

    @property
    def controller_lease(self) -> LeaseRow | None:
        """The lease of the controller, as far as it is known here; None: it is free."""
        return None if self.controller is None else self.controller.lease

    # Topics

    def _topic_changed(self, topic: Topic) -> None:
        self.metadata.forget(topic.topic_id)
        self._rules.pop(topic.topic_id, None)
        self.load.changed(topic)
        if topic.name in self.log.topics:
            self.alike_names.add(topic.name)
        else:
            self.alike_names.remove(topic.name)
        if topic.is_deleted:
            self.traffic.forget(topic.topic_id)
            self.pending_produces.topic_deleted(topic.name, topic.topic_id)
        self.topic_watch.changed()

    def _rows_changed(self) -> None:
        """Quotas of clients, or settings of brokers, are others now."""
        self.clients.quotas.apply(self.log.rows.quotas)
        configs = self.log.rows.broker_configs
        own = configs.get(str(self.node_id), {})
        for name, error in self.settings.change(configs.get(ALL_BROKERS, {}), own).items():
            logger.warning("setting is not taken, the one before stays: name=%s %s", name, error)
        if self._authorizer.version != self._judged_version:
            self._judged_version = self._authorizer.version
            self.tasks.create_task(self._end_waits(tuple(self.waiting_fetches)))
        self.topic_watch.changed()

    async def _end_waits(self, waiting: Sequence[PendingAnswer]) -> None:
        """Answer fetches that wait with what there is, by the rights that are in force now.

        The next fetch of each client is judged by them, too.
        """
        async for fetch in self.turns.share(waiting):
            fetch.finish()

    def _settings_changed(self) -> None:
        settings, flush = self.settings, self.log.writer.start_settings
        self.fetch_bytes_max = settings.number("fetch.max.bytes")
        self._rules.clear()
        interval_s, backlog_bytes_max = flush.interval_s, flush.backlog_bytes_max
        if settings.is_changed("logstore.flush.interval.ms"):
            interval_s = settings.number("logstore.flush.interval.ms") / 1000
        if settings.is_changed("logstore.backlog.bytes"):
            backlog_bytes_max = settings.number("logstore.backlog.bytes")
        self.log.writer.change_pace(interval_s, backlog_bytes_max)

    def rules(self, topic: Topic) -> TopicRules:
        rules = self._rules.get(topic.topic_id)
        if rules is None:
            if len(self._rules) > 2 * len(self.log.topics) + RULES_SPARE:
                self._rules.clear()  # of topics that are gone
            rules = TopicRules.of(topic.name, topic.configs, self.settings.topic_defaults)
            self._rules[topic.topic_id] = rules
        return rules

    # Slow work

    def start(self, call: Call, work: Work, turn: asyncio.Semaphore | None) -> None:
        """Run what takes store or registry, which answers `call` itself when it is done.

        It has one of the places of `turn` until then. None: it mostly waits for others, and takes
        such a place itself for what it does.
        """
        running = self._run(call, work, turn)
        try:
            self.tasks.create_task(running)
        except RuntimeError:  # a task has failed, the others are cancelled, and connections end
            running.close()
            call.fail("the broker is about to start again")

    async def _run(self, call: Call, work: Work, turn: asyncio.Semaphore | None) -> None:
        try:
            async with turn or nullcontext():
                if not call.connection.is_closed:
                    await work()
        except LogstoreError as error:
            call.fail(str(error))
        except Exception as error:  # noqa: BLE001 - logged, and ends one connection
            call.fail_by_fault(error)

    # Ending

    def stop(self) -> None:
        self.clients.stop()
        self.timers.close()
