"""A topic that grows, is moved to its table and trimmed, and what a reader must see of it then."""

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from logstore.records.encode import encode_batch, records_of
from tests.spark_source.log_on_disk import LogOnDisk
from tests.spark_source.moved import Mover

Digest = list[tuple[int, int, int, int, int]]
"""Per partition: number, records, different offsets, last offset, sum of checksums of values."""

TIME_MS = 1_700_000_000_000


class GrowingTopic:
    """`orders`; what was acknowledged is known by partition."""

    def __init__(self, log: LogOnDisk, partitions: int = 2) -> None:
        self.log = log
        self.url = str(log.directory)
        self.topic_id = log.create_topic("orders", partitions)
        self.mover = Mover(self.url, self.topic_id)
        self.sums: list[list[int]] = [[] for _ in range(partitions)]

    def append(self, rounds: int) -> None:
        for _ in range(rounds):
            batches = []
            for number, sums in enumerate(self.sums):
                values = [b"%d in %d" % (len(sums) + place, number) for place in range(7)]
                sums += map(zlib.crc32, values)
                records = records_of([(None, value) for value in values], timestamp=TIME_MS)
                batches.append(("orders", number, encode_batch(records)))
            self.log.append_all(batches)

    def digest(self) -> Digest:
        """Of everything acknowledged."""
        return [
            (number, len(sums), len(sums), len(sums) - 1, sum(sums))
            for number, sums in enumerate(self.sums)
        ]

    def digest_of(self, counts: Sequence[int]) -> Digest:
        """Of so many records of each partition, the first ones."""
        return [
            (number, count, count, count - 1, sum(self.sums[number][:count]))
            for number, count in enumerate(counts)
        ]

    def story(self) -> Iterator[str]:
        """Steps of compaction; between any two a reader may look. Appends while a run is on."""
        for step in range(2):
            self.append(20)
            yield f"appended {step}"
            snapshot = self.mover.commit({0: 60 + 140 * step, 1: 100 + 140 * step})
            self.append(3)
            yield f"committed {step}"
            self.mover.tell(snapshot)
            yield f"published {step}"
            self.mover.trim()
            yield f"trimmed {step}"


def digest_of(rows: DataFrame) -> Digest:
    """What a relation holds. Needs `partition`, `offset` and `value`."""
    found = (
        rows.groupBy("partition")
        .agg(
            f.count("*"),
            f.count_distinct("offset"),
            f.max("offset"),
            f.sum(f.crc32("value")),
        )
        .orderBy("partition")
        .collect()
    )
    return [tuple(row) for row in found]


def new_log(directory: Path) -> LogOnDisk:
    """With checkpoints often, so that there is something to trim."""
    return LogOnDisk(directory, checkpoint_segments=4)
