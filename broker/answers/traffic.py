"""Records and bytes of each topic, in and out, for metrics. A topic's figures only go up.

A topic is counted by itself if fewer than `topics_max` were when it was first used; all later ones
share one count, also once there is room again, so that no figure ever falls.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from logstore.epoch.log import Topic


class Served(NamedTuple):
    """Batches of one partition in the answer to a Fetch."""

    topic_id: bytes
    byte_count: int
    record_count: int
    """Offsets that they cover: more than records where a topic is compacted by key."""


class TopicTraffic:
    __slots__ = ("bytes_in", "bytes_out", "records_in", "records_out")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.records_in = 0
        self.records_out = 0


class Traffic:
    def __init__(self, topics_max: int) -> None:
        self.other = TopicTraffic()
        """Of the topics that are not counted by themselves."""
        self._topics_max = topics_max
        self._own: dict[bytes, tuple[str, TopicTraffic]] = {}
        self._by_id: dict[bytes, TopicTraffic] = {}

    def of(self, topic_id: bytes, name: str) -> TopicTraffic:
        return self._by_id.get(topic_id) or self._begin(topic_id, name)

    @property
    def by_topic(self) -> Mapping[str, TopicTraffic]:
        """By name: the topics that are counted by themselves."""
        return dict(self._own.values())

    def answered(self, served: Sequence[Served], topics: Mapping[bytes, Topic]) -> None:
        """The answer with these batches leaves."""
        for topic_id, byte_count, record_count in served:
            topic = topics.get(topic_id)
            if topic is not None:
                traffic = self.of(topic_id, topic.name)
                traffic.bytes_out += byte_count
                traffic.records_out += record_count

    def forget(self, topic_id: bytes) -> None:
        """The topic is deleted; its place is free for one that is used later."""
        self._own.pop(topic_id, None)
        self._by_id.pop(topic_id, None)

    def _begin(self, topic_id: bytes, name: str) -> TopicTraffic:
        if len(self._own) < self._topics_max:
            traffic = TopicTraffic()
            self._own[topic_id] = (name, traffic)
        else:
            traffic = self.other
        self._by_id[topic_id] = traffic
        return traffic
