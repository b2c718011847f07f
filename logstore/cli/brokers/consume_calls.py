"""Requests of `logstore consume`: records of a topic's partitions, from chosen offsets."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from logstore.cli.brokers.cluster_calls import EARLIEST, LATEST, Cluster, Moved, check
from logstore.cli.brokers.group_calls import commit_offsets, fetch_offsets, offsets_at
from logstore.cli.decisions.offset_reset import Target, choose
from logstore.errors import Invalid
from logstore.records.batch import split_batches
from logstore.records.decode import decode_records
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

FETCH = 1
BY_NAME = 12
WAIT_MS = 500
BYTES_MAX = 8 * 1024 * 1024
PARTITION_BYTES_MAX = 1024 * 1024
DECODED_BYTES_MAX = 256 * 1024 * 1024
CONSUMER = -1


class Consumed(NamedTuple):
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes | None]


class Consumer:
    """Reads partitions in turn. With a group it starts at the committed offsets, and commits as a
    consumer that assigns partitions to itself: members of the group may read them too."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        *,
        start: Target,
        partitions: Sequence[int] | None = None,
        group: str | None = None,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._group = group
        known = sorted(cluster.insist(self._leaders))
        numbers = known if partitions is None else list(partitions)
        self.ends = offsets_at(cluster, topic, numbers, LATEST)
        starts = offsets_at(cluster, topic, numbers, EARLIEST)
        by_time: dict[int, int] = {}
        if start.timestamp is not None:
            by_time = offsets_at(cluster, topic, numbers, start.timestamp)
        self.next = choose(start, {}, starts, self.ends, by_time)
        """Next offset per partition."""
        if group is not None:
            for (name, partition), offset in fetch_offsets(cluster, group).items():
                if name == topic and partition in self.next:
                    self.next[partition] = max(offset, starts[partition])

    @property
    def is_at_end(self) -> bool:
        """Whether all is read that was there at the beginning."""
        return all(self.next[partition] >= end for partition, end in self.ends.items())

    def poll(self) -> Iterator[Consumed]:
        """Records that each leader has now, or within half a second. Call `done` for each."""
        leaders = self._cluster.insist(self._leaders)
        by_leader: dict[int, list[int]] = {}
        for partition in self.next:
            by_leader.setdefault(leaders[partition], []).append(partition)
        for leader, numbers in by_leader.items():
            for answer in self._fetch(leader, numbers):
                yield from self._records(answer)

    def done(self, record: Consumed) -> None:
        """Go on behind `record`, which was written: one that is not is read again."""
        self.next[record.partition] = record.offset + 1

    def commit(self) -> None:
        if self._group is not None:
            offsets = {(self._topic, p): offset for p, offset in self.next.items()}
            commit_offsets(self._cluster, self._group, offsets)

    def _leaders(self) -> dict[int, int]:
        return self._cluster.leaders(self._topic)

    def _fetch(self, leader: int, numbers: Sequence[int]) -> Sequence[Any]:
        asked = [
            FetchPartition(number, -1, self.next[number], partition_max_bytes=PARTITION_BYTES_MAX)
            for number in numbers
        ]
        topics = [FetchTopic(self._topic, bytes(16), asked)]
        request = FetchRequest(CONSUMER, WAIT_MS, 1, BYTES_MAX, 0, topics=topics)

        def ask() -> Sequence[Any]:
            response = self._cluster.broker(leader).call(FETCH, request, BY_NAME)
            check(response.error_code, f"read {self._topic}")
            partitions: Sequence[Any] = response.responses[0].partitions
            for one in partitions:
                if one.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    number = one.partition_index
                    raise Invalid(
                        f"nothing at this offset: {self._topic}-{number} "
                        f"offset={self.next[number]}; read from earliest or latest"
                    )
                doing = f"read {self._topic}-{one.partition_index}"
                check(one.error_code, doing, is_led=True)
            return partitions

        try:
            return ask()
        except Moved:
            self._cluster.forget()
            return ()  # the next poll looks for the leader again

    def _records(self, answer: Any) -> Iterator[Consumed]:
        number, data = answer.partition_index, memoryview(_joined(answer.records))
        for at, header in split_batches(data):
            batch = data[at : at + header.size_bytes]
            if not header.is_control:
                for record in decode_records(batch, max_bytes=DECODED_BYTES_MAX):
                    offset = header.base_offset + record.offset_delta
                    if offset >= self.next[number]:
                        yield Consumed(
                            number,
                            offset,
                            record.timestamp,
                            _bytes(record.key),
                            _bytes(record.value),
                            {name: _bytes(value) for name, value in record.headers},
                        )
            self.next[number] = max(self.next[number], header.next_offset)


def _joined(records: Any) -> bytes:
    if isinstance(records, list):
        return b"".join(records)
    return bytes(records or b"")


def _bytes(data: Any) -> bytes | None:
    return None if data is None else bytes(data)
