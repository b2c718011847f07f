"""Tasks and drivers of one query in memory: what they stage is drawn, and the same each time."""

import random
from collections.abc import Callable, Sequence
from itertools import count

from logstore.formats.manifest import ManifestTopic
from logstore.formats.staging_keys import SinkBatch, sink_hash
from logstore.formats.topic_partition import TopicPartition
from logstore.objects.memory import MemoryObjects
from logstore.ports.objects import BlockingObjectStore
from logstore.records.encode import encode_batch, records_of
from logstore.runners.retrying import RetryingStore
from logstore.staging.brokers import BrokerAddress, Brokers
from logstore.staging.commit import BatchCommitter, CommitReport
from logstore.staging.manifests import Manifests, OfferedBatch
from logstore.staging.older_sinks import OlderSinks
from logstore.staging.task import ObjectWriter, StagedTask, TaskStager
from tests.logstore.staging.adopting import AdoptingCluster
from tests.spark_source.stepped_time import SteppedTime

CLUSTER_ID = bytes(range(0xC0, 0xD0))
ORDERS, OTHERS = bytes([1]) * 16, bytes([2]) * 16
TOPICS = {"orders": ORDERS, "others": OTHERS}
SINK = sink_hash("sink")


class Query:
    """One query of one log; `cluster` are its leaders. Each `commit` is a new driver."""

    def __init__(self, seed: int = 0, store: BlockingObjectStore | None = None) -> None:
        self.time = SteppedTime()
        self.objects = MemoryObjects(self.time)
        self.store = store or self.objects
        self.cluster = AdoptingCluster(self.objects, CLUSTER_ID, dict(TOPICS))
        self.rng = random.Random(seed)
        self.query_id = "query"
        self.sink = SINK
        self.older_sink: bytes | None = None
        """The sink as releases before knew it, which had no ids of queries in theirs."""
        self.object_bytes = 400
        self._runs = count()

    def tasks_of(
        self, batch: int, rows: int = 12
    ) -> list[list[tuple[TopicPartition, list[bytes]]]]:
        """What the tasks of a batch write: the same at each attempt."""
        rng = random.Random(f"{batch} {rows}")
        tasks = []
        for task in range(3):
            written = []
            for number in range(rng.randrange(rows)):
                topic_id = rng.choice([ORDERS, OTHERS])
                key = TopicPartition(topic_id, rng.randrange(self.cluster.partitions))
                values = [b"%d/%d/%d/%d" % (batch, task, number, one) for one in range(3)]
                written.append((key, values))
            tasks.append(written)
        return tasks

    def stage(self, batch: SinkBatch, rows: int = 12) -> list[StagedTask]:
        return [
            self.stage_task(batch, task, written)
            for task, written in enumerate(self.tasks_of(batch.batch, rows))
        ]

    def stage_task(
        self, batch: SinkBatch, task: int, written: Sequence[tuple[TopicPartition, list[bytes]]]
    ) -> StagedTask:
        stager = TaskStager(
            ObjectWriter(
                self._patient(),
                batch,
                task=task,
                attempt=self.rng.getrandbits(63),
                cluster_id=CLUSTER_ID,
                draw_nonce=self.nonce,
                clock=self.time,
            ),
            object_bytes=self.object_bytes,
        )
        for key, values in written:
            records = records_of([(None, value) for value in values], timestamp=7)
            stager.add(key, encode_batch(records, base_offset=stager.next_offset(key)))
        return stager.finish()

    def commit(
        self,
        number: int,
        *,
        tasks: Sequence[StagedTask] | None = None,
        find_brokers: Callable[[], Sequence[BrokerAddress]] | None = None,
        inline_bytes_max: int = 1 << 20,
        older: OlderSinks | None = None,
    ) -> CommitReport:
        """Stage the batch and commit it. `older`: of a driver that goes on from another batch."""
        batch = SinkBatch(self.sink, number)
        offered = OfferedBatch(
            batch=batch,
            query_id=self.query_id,
            run_id=str(next(self._runs)),
            topics=[ManifestTopic(name, id_, 4) for name, id_ in TOPICS.items()],
            tasks=self.stage(batch) if tasks is None else tasks,
            older=None if self.older_sink is None else SinkBatch(self.older_sink, number),
        )
        with Brokers(
            find_brokers or (lambda: [BrokerAddress("here", 0)]), open_connection=self.cluster.open
        ) as brokers:
            manifests = Manifests(
                self._patient(),
                CLUSTER_ID,
                clock=self.time,
                rng=self.rng,
                draw_nonce=self.nonce,
                inline_bytes_max=inline_bytes_max,
            )
            committer = BatchCommitter(
                manifests,
                brokers,
                clock=self.time,
                rng=self.rng,
                sleep_s=self.time.pass_s,
                older=older or self.older_sinks(),
            )
            return committer.commit(offered)

    def older_sinks(self) -> OlderSinks:
        return OlderSinks(self._patient(), CLUSTER_ID, clock=self.time, draw_nonce=self.nonce)

    def wanted(self, batches: Sequence[int]) -> dict[TopicPartition, list[bytes]]:
        """The log of each partition once these batches are in it, in this order."""
        logs: dict[TopicPartition, list[bytes]] = {}
        for batch in batches:
            for written in self.tasks_of(batch):
                for key, values in written:
                    logs.setdefault(key, []).extend(values)
        return logs

    def logs(self) -> dict[TopicPartition, list[bytes]]:
        """Logs as they are, tasks in order: nothing is promised of two tasks of a batch."""
        found = {}
        for key, log in self.cluster.logs.items():
            batches = [_batch_and_task(value)[0] for value in log]
            assert batches == sorted(batches)
            found[key] = sorted(log, key=_batch_and_task)
        return found

    def nonce(self) -> bytes:
        return self.rng.randbytes(16)

    def _patient(self) -> RetryingStore:
        return RetryingStore(self.store, self.rng, self.time.pass_s)


def _batch_and_task(value: bytes) -> tuple[int, int]:
    batch, task, *_ = map(int, value.split(b"/"))
    return batch, task
