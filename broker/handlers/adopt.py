"""Adopt, version 0: our own request, by which a Spark sink commits what its tasks staged.

The driver names a manifest and partitions that this broker leads. Their batches are copied from the
staged objects into the open segment, in manifest order; each partition has its own outcome, and the
answer leaves when all that was copied is committed. A repeat copies nothing twice: the partition's
state knows the sink's last batch (`logstore.protocol.sinks.verdicts`).

Writing to each topic must be allowed, as with Produce. Refusals that a driver takes for final come
after a fencing check (`broker.answers.fence_check`): a broker that was replaced knows the sink only
as it was then. `ALREADY` needs none: it is said of committed records alone, and these stay.

Not done: batches that stay in their staged objects and are referred to (kind `adopted` of an index
entry).
"""

import asyncio

from broker.answers.broker import Broker
from broker.answers.decisions.budgets import over_budget
from broker.answers.fence_check import check_not_sealed
from broker.answers.manifest_copy import NOT_DONE, AdoptTarget, ManifestCopy
from broker.answers.partitions import find_leader
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from logstore.epoch.log import Topic
from logstore.errors import Fenced, Invalid, LogstoreError, Unavailable
from logstore.formats.staging_keys import SinkBatch, place_of
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TopicStatus
from logstore.protocol.rows.metadata import read_topic_row
from logstore.protocol.sinks.staged_reads import ReadManifest
from logstore.wire.adopt import (
    AdoptOutcome,
    AdoptPartition,
    AdoptPartitionResult,
    AdoptRequest,
    AdoptResponse,
    AdoptTopic,
    AdoptTopicResult,
)

TIMEOUT_MS_MAX = 600_000
ANY_EPOCH = -1
FINAL = (AdoptOutcome.INVALID, AdoptOutcome.UNKNOWN_TOPIC_ID)

_Unknown = tuple[AdoptTopic, AdoptTopicResult]


async def adopt(broker: Broker, call: Call, request: AdoptRequest) -> AdoptResponse:
    response = AdoptResponse()
    placed: list[AdoptTarget] = []
    unknown: list[_Unknown] = []
    refusal = over_budget(call.api.key, sum(len(one.partitions) for one in request.topics))
    if refusal is not None:
        raise refusal
    async for asked in call.each(request.topics):
        result = AdoptTopicResult(asked.topic_id)
        response.topics.append(result)
        topic = broker.log.topics_by_id.get(asked.topic_id)
        if topic is None:
            unknown.append((asked, result))
        else:
            placed += await _place(broker, call, topic, asked, result)
    await _run(broker, call, request, placed, unknown)
    await _doubt(broker, response)
    broker.adopt_counts.note_answer(response.topics)
    return response


async def _place(
    broker: Broker, call: Call, topic: Topic, asked: AdoptTopic, result: AdoptTopicResult
) -> list[AdoptTarget]:
    """The partitions of a topic that are led here; of the others the results say why not."""
    if not broker.allows_on(call, Operation.WRITE, topic):
        _refuse_all(asked, result, AdoptOutcome.NOT_ALLOWED, f"no right to write to {topic.name}")
        return []
    if broker.rules(topic).is_internal:
        _refuse_all(asked, result, AdoptOutcome.INVALID, f"only brokers write to {topic.name}")
        return []
    placed: dict[int, AdoptTarget] = {}
    async for one in call.each(asked.partitions):
        leader, _ = find_leader(broker, topic, one.partition)
        if leader is None or one.leader_epoch not in (ANY_EPOCH, leader.leader_epoch):
            result.partitions.append(_result(one, AdoptOutcome.NOT_LEADER, "not led here"))
        elif one.partition in placed:
            raise Invalid(f"partition named twice: partition={one.partition}")
        else:
            mine = _result(one, AdoptOutcome.BUSY, NOT_DONE)
            result.partitions.append(mine)
            partition = TopicPartition(topic.topic_id, one.partition)
            placed[one.partition] = AdoptTarget(partition, topic, leader, mine)
    return list(placed.values())


async def _run(
    broker: Broker,
    call: Call,
    request: AdoptRequest,
    placed: list[AdoptTarget],
    unknown: list[_Unknown],
) -> None:
    timeout_s = max(0, min(request.timeout_ms, TIMEOUT_MS_MAX)) / 1000
    try:
        batch = _batch_of(request)
        async with asyncio.timeout(timeout_s):
            kept = await broker.staged_manifests.get(batch, request.manifest_nonce)
    except TimeoutError:
        for asked, result in unknown:
            _refuse_all(asked, result, AdoptOutcome.BUSY, NOT_DONE)
        return
    except LogstoreError as error:
        for one in placed:
            one.refuse_for(error)
        outcome = AdoptOutcome.BUSY if isinstance(error, Unavailable) else AdoptOutcome.INVALID
        for asked, result in unknown:
            _refuse_all(asked, result, outcome, str(error))
        return
    await ManifestCopy(broker, batch, placed).run(kept, timeout_s)
    for asked, result in unknown:
        await _look_for_topic(broker, call, kept.read, asked, result)


def _batch_of(request: AdoptRequest) -> SinkBatch:
    place = place_of(request.manifest_key)
    if place is None or place[1] is not None:
        raise Invalid(f"not the key of a manifest: key={request.manifest_key!r}")
    return place[0]


async def _look_for_topic(
    broker: Broker,
    call: Call,
    read: ReadManifest,
    asked: AdoptTopic,
    result: AdoptTopicResult,
) -> None:
    """A topic that this broker does not know is new, or gone: its row says which."""
    names = [one.name for one in read.manifest.head.topics if one.topic_id == asked.topic_id]
    if not names:
        message = f"the manifest does not name topic {asked.topic_id.hex()}"
        _refuse_all(asked, result, AdoptOutcome.INVALID, message)
    elif not broker.allows(call, Operation.WRITE, ResourceKind.TOPIC, names[0]):
        message = f"no right to write to {names[0]}"
        _refuse_all(asked, result, AdoptOutcome.NOT_ALLOWED, message)
    else:
        async with broker.store_reads:
            row = await broker.log.runner.run(read_topic_row(names[0]))
        is_here = row is not None and row.topic_id == asked.topic_id
        if row is not None and is_here and row.status is TopicStatus.LIVE:
            message = f"topic {names[0]} is not known here yet"
            _refuse_all(asked, result, AdoptOutcome.NOT_LEADER, message)
        else:
            message = f"topic {names[0]} was deleted: id={asked.topic_id.hex()}"
            _refuse_all(asked, result, AdoptOutcome.UNKNOWN_TOPIC_ID, message)


def _refuse_all(
    asked: AdoptTopic, result: AdoptTopicResult, outcome: AdoptOutcome, message: str
) -> None:
    result.partitions += [_result(one, outcome, message) for one in asked.partitions]


def _result(asked: AdoptPartition, outcome: AdoptOutcome, message: str) -> AdoptPartitionResult:
    return AdoptPartitionResult(asked.partition, outcome, message=message)


async def _doubt(broker: Broker, response: AdoptResponse) -> None:
    """Say what a driver takes for final only if no other broker had become the leader."""
    final = [one for topic in response.topics for one in topic.partitions if one.outcome in FINAL]
    error = await check_not_sealed(broker.log) if final else None
    if error is not None:
        is_fenced = isinstance(error, Fenced)
        for one in final:
            one.outcome = AdoptOutcome.NOT_LEADER if is_fenced else AdoptOutcome.BUSY
            one.message = str(error)
