"""Consumers that were sent to a follower and came back. Pure.

A leader cannot know whether a consumer reaches the follower that it names, or is served there: the
brokers do not call each other. A consumer that is served keeps to the follower for the age of its
metadata (five minutes by default, KIP-392). One that is back sooner was not, so the leader serves
it: sent away again at once, it would go to and fro for ever and read nothing.
"""

from logstore.formats.topic_partition import TopicPartition

BACK_SOON_S = 30.0
"""A consumer that comes back sooner was not served. Content ones stay for their metadata's age."""
SERVED_HERE_S = 300.0
"""How long the leader serves a consumer that came back: as long as metadata.max.age.ms."""
REFERRALS_MAX = 10_000


class Referrals:
    """For which partitions one connection was sent to a follower, and when. Pure.

    A request may be looked at several times before it is answered: only an answer sends.
    """

    def __init__(self) -> None:
        self._sent_s: dict[TopicPartition, float] = {}
        self._served_here_until_s: dict[TopicPartition, float] = {}

    def note_asked(self, partition: TopicPartition, now_s: float) -> bool:
        """The consumer asks here: whether to send it to a follower. False: it was sent there and
        came back, and is served here from now on."""
        if now_s < self._served_here_until_s.get(partition, now_s):
            return False
        if now_s - self._sent_s.get(partition, float("-inf")) >= BACK_SOON_S:
            return True
        del self._sent_s[partition]
        _note(self._served_here_until_s, partition, now_s + SERVED_HERE_S)
        return False

    def note_sent(self, partition: TopicPartition, now_s: float) -> None:
        self._served_here_until_s.pop(partition, None)
        _note(self._sent_s, partition, now_s)


def _note(where: dict[TopicPartition, float], partition: TopicPartition, at_s: float) -> None:
    where.pop(partition, None)
    if len(where) >= REFERRALS_MAX:
        del where[next(iter(where))]  # the oldest
    where[partition] = at_s
