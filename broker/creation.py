"""Creating topics: what CreateTopics and auto-creation share.

A creation that has begun is never cancelled, only no longer waited for: cut off half way it would
leave a topic in the registry that this broker does not know until its next start.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from broker.errors import Refuse
from logstore.errors import LogstoreError
from logstore.log.log import Log
from logstore.log.topics import TopicExists, check_topic_name
from logstore.perform import outcome_of
from logstore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from broker.broker import Broker

T = TypeVar("T")

logger = logging.getLogger(__name__)


def check_new_name(log: Log, name: str) -> None:
    """Raises `BadTopicName`, `TopicExists`, or `Refuse` for one too like another."""
    check_topic_name(name)
    if name in log.topics:
        raise TopicExists(f"topic exists: name={name}")
    if "." in name or "_" in name:
        plain = name.replace(".", "_")
        for known in log.topics:
            if known.replace(".", "_") == plain:
                raise Refuse(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"topic name collides with another, since '.' and '_' look alike in metrics: "
                    f"name={name} other={known}",
                )


async def begin_and_wait(
    broker: "Broker", work: Coroutine[Any, Any, T], timeout_s: float
) -> T | LogstoreError:
    """The outcome of `work`, or `Refuse` with REQUEST_TIMED_OUT while it goes on."""
    task = broker.tasks.create_task(outcome_of(work))
    await asyncio.wait([task], timeout=timeout_s)
    if not task.done():
        return Refuse(ErrorCode.REQUEST_TIMED_OUT, "still being done; ask again")
    return task.result()


def auto_create(broker: "Broker", name: str) -> None:
    """Begin to create a topic that a client asked for, once however many ask."""
    if name not in broker.being_created:
        broker.being_created.add(name)
        broker.tasks.create_task(_auto_create(broker, name))


async def _auto_create(broker: "Broker", name: str) -> None:
    no_configs: Mapping[str, str] = {}
    try:
        async with broker.changes:
            await broker.log.create_topic(
                name, broker.settings.number("num.partitions"), no_configs
            )
        logger.info("topic created: name=%s because=auto.create.topics.enable", name)
    except TopicExists:
        pass
    except LogstoreError as error:
        logger.warning("topic not created: name=%s %s", name, error)
    finally:
        broker.being_created.discard(name)
