"""One task of a write in an executor: learns from Spark whose rows these are, and writes them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from logstore.errors import Invalid
from logstore.formats.manifest import ManifestTopic
from logstore.formats.staging_keys import BATCH_MAX, SinkBatch, sink_hash
from logstore.ports.clock import Clock, SystemClock
from logstore.reading.direct.task_rows import open_once
from logstore.runners.retrying import RetryingStore
from logstore.staging.manifests import ATTEMPT_BITS
from logstore.staging.sending import BatchSender
from logstore.staging.task import ObjectWriter, StagedTask, TaskStager
from spark_source.sink.log import open_sink
from spark_source.sink.options import Delivery
from spark_source.sink.plan import WritePlan
from spark_source.sink.rows import RowRouter
from spark_source.sink.task import TaskIdentity, manifest_topics, write_rows
from spark_source.worker_memory import settle

if TYPE_CHECKING:
    import pyarrow as pa

QUERY_ID, BATCH_ID, RUN_ID = "sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id"


@dataclass(frozen=True, slots=True)
class TaskMessage(WriterCommitMessage):
    """`staged` None: the rows were sent, nothing is left to do."""

    identity: TaskIdentity
    topics: Sequence[ManifestTopic]
    staged: StagedTask | None


def write_task(plan: WritePlan, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
    settle()
    clock, options = SystemClock(), plan.options
    identity = _identity(plan)
    router = RowRouter(plan.columns, options.topic, plan.topics, identity.batch, identity.task)
    if options.delivery is Delivery.AT_LEAST_ONCE:
        sender = _sender(plan, clock)
        topics = write_rows(iterator, router, sender, options.codec, clock)
        sender.finish()
        return TaskMessage(identity, manifest_topics(topics.values()), None)
    stager = _stager(plan, identity, clock)
    topics = write_rows(iterator, router, stager, options.codec, clock)
    return TaskMessage(identity, manifest_topics(topics.values()), stager.finish())


def stream_batch(
    sink_id: str | None, query_id: str, number: int
) -> tuple[SinkBatch, SinkBatch | None]:
    """Returns the batch of a stream, and the same as its sink was identified before: by `sinkId`
    alone, whatever query it was. A new checkpoint has a new query id, so it is a new sink."""
    if sink_id is None:
        return SinkBatch(sink_hash(query_id), number), None
    return SinkBatch(sink_hash(sink_id, query_id), number), SinkBatch(sink_hash(sink_id), number)


def _identity(plan: WritePlan) -> TaskIdentity:
    context = TaskContext.get()
    if context is None:
        raise Invalid("a task of a write has no TaskContext: run it by Spark")
    run_id = context.getLocalProperty(RUN_ID) or ""
    options = plan.options
    if plan.write_id:
        batch = BATCH_MAX if options.version is None else options.version
        sink_id = options.sink_id or plan.write_id
        query_id = f"txnAppId {sink_id}" if options.sink_id else f"write {plan.write_id}"
        return TaskIdentity(
            SinkBatch(sink_hash(sink_id), batch), context.partitionId(), query_id, run_id
        )
    query, number = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    if query is None or number is None:
        raise Invalid(f"a task of a stream without {QUERY_ID} or {BATCH_ID}; a newer Spark?")
    this, older = stream_batch(options.sink_id, query, int(number))
    return TaskIdentity(this, context.partitionId(), query, run_id, older)


def _sender(plan: WritePlan, clock: Clock) -> BatchSender:
    log = open_sink(plan.options.url, plan.options.storage, plan.options.bootstrap)
    sender = BatchSender(log.brokers, clock=clock, rng=log.rng)
    for topic in plan.topics.values():
        sender.name_topic(topic.topic_id, topic.name)
    return sender


def _stager(plan: WritePlan, identity: TaskIdentity, clock: Clock) -> TaskStager:
    store = RetryingStore(open_once(plan.options.url, plan.options.storage))
    writer = ObjectWriter(
        store,
        identity.batch,
        task=identity.task,
        attempt=secrets.randbits(ATTEMPT_BITS),
        cluster_id=plan.cluster_id,
        draw_nonce=lambda: secrets.token_bytes(16),
        clock=clock,
    )
    return TaskStager(writer)
