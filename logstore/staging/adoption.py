"""Which partitions of a manifest are still to be adopted, whom to ask, what an answer means. Pure.

Adopting is idempotent: a leader remembers the batch of each sink, so asking again is always safe,
and a partition counts as done only by its own leader's answer.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from logstore.errors import Invalid
from logstore.formats.manifest import Manifest
from logstore.formats.topic_partition import TopicPartition
from logstore.wire.adopt import (
    AdoptOutcome,
    AdoptPartition,
    AdoptPartitionResult,
    AdoptRequest,
    AdoptResponse,
    AdoptTopic,
)

GONE_S = 10.0
"""How long brokers may not know a topic that the registry has."""

_FINAL: Mapping[AdoptOutcome, str] = {
    AdoptOutcome.UNKNOWN_TOPIC_ID: "the topic was deleted, or created again, since the batch was "
    "staged; to write the batch to a new topic of that name, start the query with a new sinkId",
    AdoptOutcome.INVALID: "the leader refuses what was staged",
    AdoptOutcome.NOT_ALLOWED: "not allowed to write to the topic",
}


class PartitionLeader(NamedTuple):
    broker: int
    leader_epoch: int


class Adopted(NamedTuple):
    """Offsets [first, end) in which the rows lie; -1 where a later batch has been adopted since.

    `was_adopted`: by an earlier request, perhaps of an earlier attempt.
    """

    first_offset: int
    end_offset: int
    was_adopted: bool


class NotedAnswer(NamedTuple):
    """`has_moved`: some leader is to be looked up. `has_advanced`: more of the batch is done."""

    has_moved: bool
    has_advanced: bool


class Adoption:
    """State of one batch while its partitions are adopted."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.adopted: dict[TopicPartition, Adopted] = {}
        self.trouble = ""
        """The last reason why a partition was not adopted."""
        self._names = {topic.topic_id: topic.name for topic in manifest.head.topics}
        self._left = sorted(manifest.head.rows)
        self._gone_since_s: float | None = None
        self._progress: dict[TopicPartition, int] = {}

    @property
    def is_done(self) -> bool:
        return not self._left

    @property
    def left(self) -> Sequence[TopicPartition]:
        return self._left

    def topic_names(self) -> list[str]:
        """Topics of the partitions that are left."""
        return sorted({self._names[one.topic_id] for one in self._left})

    def note_topic_ids(self, found: Mapping[str, bytes | None], now_s: float) -> None:
        """Topic ids as brokers know them now.

        Raises `Invalid` once a topic of the manifest has been gone for `GONE_S`: brokers may learn
        of a creation a little later than the driver.
        """
        wanted = {one.topic_id for one in self._left}
        gone = [
            name for id_, name in self._names.items() if id_ in wanted and found.get(name) != id_
        ]
        if not gone:
            self._gone_since_s = None
            return
        self.trouble = f"brokers do not know topic {gone[0]} by the id that rows were staged for"
        if self._gone_since_s is None:
            self._gone_since_s = now_s
        elif now_s - self._gone_since_s > GONE_S:
            raise Invalid(
                f"cannot commit the batch: {_FINAL[AdoptOutcome.UNKNOWN_TOPIC_ID]}: "
                f"topic={gone[0]} manifest={self.manifest.key}"
            )

    def requests(
        self, leaders: Mapping[TopicPartition, PartitionLeader], timeout_ms: int
    ) -> dict[int, AdoptRequest]:
        """One per leader, with all its partitions that are left."""
        by_broker: dict[int, dict[bytes, list[AdoptPartition]]] = {}
        for one in self._left:
            leader = leaders.get(one)
            if leader is None:
                self.trouble = f"{self._name(one)} has no leader"
                continue
            topics = by_broker.setdefault(leader.broker, {})
            partition = AdoptPartition(one.partition, leader.leader_epoch)
            topics.setdefault(one.topic_id, []).append(partition)
        return {
            broker: AdoptRequest(
                self.manifest.key,
                self.manifest.nonce,
                timeout_ms,
                [AdoptTopic(topic_id, partitions) for topic_id, partitions in topics.items()],
            )
            for broker, topics in by_broker.items()
        }

    def note(self, response: AdoptResponse) -> NotedAnswer:
        """An answer. Raises `Invalid` where asking again is of no use."""
        moved = advanced = False
        wanted = set(self._left)
        for key, result in _results(response):
            if key not in wanted:
                continue
            outcome = _outcome(result)
            if outcome in (AdoptOutcome.ADOPTED, AdoptOutcome.ALREADY):
                self.adopted[key] = Adopted(
                    result.first_offset, result.end_offset, outcome is AdoptOutcome.ALREADY
                )
                advanced = True
                continue
            if outcome is AdoptOutcome.BUSY:
                # Above all that it said before: one that forgot, and is back where it was, has
                # done no more.
                farthest = self._progress.get(key, 0)
                advanced |= result.progress > farthest
                self._progress[key] = max(farthest, result.progress)
            elif outcome is AdoptOutcome.NOT_LEADER:
                self._progress.pop(key, None)  # the next leader begins with nothing
            where = f"{self._name(key)} manifest={self.manifest.key}"
            detail = f"{where} answer={outcome.name} {result.message or ''}".rstrip()
            if outcome in _FINAL:
                raise Invalid(f"cannot commit the batch: {_FINAL[outcome]}: {detail}")
            self.trouble = detail
            moved |= outcome is AdoptOutcome.NOT_LEADER
        self._left = [one for one in self._left if one not in self.adopted]
        return NotedAnswer(moved, advanced)

    def _name(self, one: TopicPartition) -> str:
        return f"partition={self._names[one.topic_id]}-{one.partition}"


def _results(response: AdoptResponse) -> Iterable[tuple[TopicPartition, AdoptPartitionResult]]:
    for topic in response.topics:
        for result in topic.partitions:
            yield TopicPartition(topic.topic_id, result.partition), result


def _outcome(result: AdoptPartitionResult) -> AdoptOutcome:
    try:
        return AdoptOutcome(result.outcome)
    except ValueError:
        raise Invalid(
            f"a broker gives an answer of a newer version: outcome={result.outcome}; upgrade"
        ) from None
