"""Creating topics and partitions: what CreateTopics, CreatePartitions and auto-creation share.

A creation that has begun is never cancelled, only no longer waited for: cut off half way it would
leave a topic in the registry that no broker knows until it reads all rows again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from broker.answers.broker import Broker
from broker.answers.decisions.refuse import Refuse
from broker.answers.decisions.shown_cluster import INTERNAL_TOPICS
from broker.cluster.new_partitions import Assignments, place_partitions
from broker.groups.decisions.group_partition import OFFSETS_TOPIC
from logstore.epoch.topic_changes import NotAlive
from logstore.errors import LogstoreError, Retryable
from logstore.protocol.topics.life import TopicExists, check_topic_name
from logstore.runners.step_runner import outcome_of
from logstore.wire.errors import ErrorCode

T = TypeVar("T")

AUTO_CREATED_AT_ONCE_MAX = 200
"""Topics on their way because clients asked for them; for others they have to ask again."""

PLACEMENTS_MAX = 3
"""A broker that dies is noticed within seconds: a second placement knows of it."""

logger = logging.getLogger(__name__)


def check_new_name(broker: Broker, name: str) -> None:
    """Raises `BadTopicName`, `TopicExists`, or `Refuse` for one too like another."""
    check_topic_name(name)
    if name in broker.log.topics:
        raise TopicExists(f"topic exists: name={name}")
    known = broker.alike_names.find(name)
    if known is not None:
        raise Refuse(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"topic name collides with another, since '.' and '_' look alike in metrics: "
            f"name={name} other={known}",
        )


def check_not_internal(name: str, change: str) -> None:
    """Raises `Refuse` for a topic that belongs to the brokers.

    Groups are found by a hash over its partitions: with more of them, or another life of the topic,
    their offsets would seem to be gone.
    """
    if name in INTERNAL_TOPICS:
        raise Refuse(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"internal topics are made by brokers and cannot be {change} by clients: name={name}",
        )


def check_assignment(
    partition: int, brokers: Sequence[int], known: Collection[int], what_known: str = "live"
) -> None:
    """Raises `Refuse` unless these are brokers of `known`, each once."""
    if not brokers or len(set(brokers)) < len(brokers) or not set(brokers) <= set(known):
        raise Refuse(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"replicas must be assigned to {what_known} brokers, each once: partition={partition} "
            f"brokers={list(brokers)} {what_known}={sorted(known)}",
        )


def check_same_length(assignments: Iterable[Sequence[int]]) -> None:
    """Raises `Refuse` unless every partition has as many replicas as the others."""
    if len({len(brokers) for brokers in assignments}) > 1:
        raise Refuse(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "every partition must be assigned the same number of replicas",
        )


async def make_placed(
    make: Callable[[Assignments], Awaitable[T]],
    assignments: Assignments,
    again: Callable[[], Assignments] | None,
) -> T:
    """`make` with `assignments`, and with those of `again` if a chosen broker died in between.

    `again` is None where the client chose the brokers: then raises `NotAlive`. Else raises
    `Retryable` after a few attempts, since it is not the request that is wrong.
    """
    for _ in range(PLACEMENTS_MAX):
        try:
            return await make(assignments)
        except NotAlive:
            if again is None:
                raise
        assignments = again()
    raise Retryable("brokers stopped while partitions were placed on them; try again")


async def begin_and_wait(
    broker: Broker, work: Coroutine[Any, Any, T], timeout_s: float
) -> T | LogstoreError:
    """The outcome of `work`, or `Refuse` with REQUEST_TIMED_OUT while it goes on.

    The same where too many changes go on already for it to begin in time.
    """
    deadline_s = broker.loop.time() + timeout_s
    try:
        async with asyncio.timeout(timeout_s):
            await broker.begun.acquire()
    except TimeoutError:
        work.close()
        return Refuse(ErrorCode.REQUEST_TIMED_OUT, "too many changes are under way; ask again")
    task = broker.tasks.create_task(outcome_of(work))

    def end(_: object) -> None:
        broker.begun.release()
        # A task that is cancelled before its first step leaves a coroutine that was never awaited.
        work.close()

    task.add_done_callback(end)
    await asyncio.wait([task], timeout=max(0.0, deadline_s - broker.loop.time()))
    if not task.done():
        return Refuse(ErrorCode.REQUEST_TIMED_OUT, "the change has not finished yet; ask again")
    return task.result()


def auto_create(broker: Broker, name: str) -> None:
    """Begin to create a topic that a client asked for, once however many ask."""
    if name == OFFSETS_TOPIC:
        broker.groups.create_topic()
    elif name not in broker.being_created and (
        len(broker.being_created) < AUTO_CREATED_AT_ONCE_MAX
    ):
        broker.being_created.add(name)
        broker.tasks.create_task(_auto_create(broker, name))


async def _auto_create(broker: Broker, name: str) -> None:
    no_configs: Mapping[str, str] = {}
    count = broker.settings.number("num.partitions")
    replicas = broker.settings.number("default.replication.factor")
    try:
        async with broker.changes:
            await broker.log.create_topic(
                name,
                count,
                no_configs,
                replicas=replicas,
                assignments=place_partitions(broker.log, count, replicas, broker.load),
            )
        logger.info("topic created: name=%s because=auto.create.topics.enable", name)
    except TopicExists:
        pass
    except LogstoreError as error:
        logger.warning("topic not created: name=%s %s", name, error)
    finally:
        broker.being_created.discard(name)
