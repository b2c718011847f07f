"""Change the configs of a topic: steps on its row, which every broker reads again by itself. Pure.

Of two concurrent changes both are kept. The caller publishes the change.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from logstore.formats.topic_row import TopicRow
from logstore.protocol.steps import Steps
from logstore.protocol.topics.topic_change import change_topic

Change = Callable[[Mapping[str, str]], Mapping[str, str]]
"""The configs that a topic is to have, from those that it has."""


def change_topic_configs(name: str, topic_id: bytes, change: Change) -> Steps[TopicRow]:
    """The row as it is afterwards; nothing is written where `change` changes nothing.

    Raises `UnknownTopic` when that life of the topic is over, `Retryable` after losing many races,
    the `Invalid` that `change` does, and as store and registry do.
    """

    def changed(topic: TopicRow) -> TopicRow:
        return replace(topic, configs=dict(change(topic.configs)))

    return (yield from change_topic(name, topic_id, changed))
