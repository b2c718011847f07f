"""Change the configs of a topic: steps on its row, which every broker reads again by itself. Pure.

The row changes only from the configs that the new ones were made of: two changes at once are both
kept. Whoever changed it publishes it.
"""

import json
from collections.abc import Callable, Mapping

from logstore.errors import ConditionFailed, Retryable
from logstore.log.topics import UnknownTopic
from logstore.registry.store import Condition, Row
from logstore.rows import TOPIC, TopicRow, TopicStatus
from logstore.steps import BackOff, GetRow, Steps, UpdateRow

ATTEMPTS_MAX = 20

Change = Callable[[Mapping[str, str]], Mapping[str, str]]
"""The configs that a topic is to have, from those that it has."""


def change_topic_configs(name: str, topic_id: bytes, change: Change) -> Steps[TopicRow]:
    """The row as it is afterwards; nothing is written where `change` changes nothing.

    Raises `UnknownTopic` when that life of the topic is over, `Retryable` after losing many races,
    and what `change` does.
    """
    row: Row | None = yield GetRow(TOPIC, name)
    for attempt in range(1, ATTEMPTS_MAX + 1):
        topic = None if row is None else TopicRow.of(row)
        if (
            row is None
            or topic is None
            or topic.topic_id != topic_id
            or topic.status is not TopicStatus.LIVE
        ):
            raise UnknownTopic(f"no such topic: name={name} topic_id={topic_id.hex()}")
        configs = dict(change(topic.configs))
        if configs == topic.configs:
            return topic
        terms = [
            Condition("topic_id", "=", topic_id.hex()),
            Condition("status", "=", TopicStatus.LIVE.value),
            Condition("configs", "=", row["configs"]),
        ]
        try:
            sets = {"configs": json.dumps(configs, sort_keys=True)}
            yield UpdateRow(TOPIC, name, sets, terms)
        except ConditionFailed as failed:
            row = failed.current
            yield BackOff(attempt)
        else:
            return TopicRow(topic_id, topic.status, topic.partitions, configs, topic.replicas)
    raise Retryable(f"too many others change this topic: name={name}; try again")
