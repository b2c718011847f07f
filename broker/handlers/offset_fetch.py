"""OffsetFetch, versions 1 to 10: how far groups have read; from version 8 several groups at once,
in version 10 by the ids of topics.

Without a committed offset the answer is -1 and no error: the consumer then does as configured
(auto.offset.reset). No list of topics (null, from version 2) means all that the group has in topics
that are there. Errors concern a whole group; before version 2 there is no place for them but each
partition.

Not done: transactions, so no offset is ever unstable and `require_stable` changes nothing.
"""

import asyncio
from collections.abc import Iterator, Mapping

from broker.answers.broker import Broker
from broker.answers.decisions.budgets import check_answer
from broker.answers.decisions.refuse import Refuse
from broker.answers.decisions.repeats import AskedTopics, Topics, merge_groups
from broker.answers.group_requests import coordinator_for
from broker.groups.coordinator import Coordinator
from broker.groups.decisions.group import Group
from broker.groups.decisions.offsets import find
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from logstore.epoch.log import Topic
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from logstore.wire.primitives import ZERO_UUID

GROUPS_FROM, TOPIC_IDS_FROM = 8, 10
GROUP_ERROR_FROM = 2
NOTHING = -1
PARTITION_BYTES = 24
"""Of an answer, without the metadata of the committed offset."""


async def offset_fetch(
    broker: Broker, call: Call, request: OffsetFetchRequest
) -> OffsetFetchResponse:
    """Answers with the offsets known now, once all of them are committed.

    Later ones are left out: they may never be committed, and a consumer that had gone on from there
    would see the offset go back.
    """
    asked = await call.finish(merge_groups(_asked(call, request)))
    groups: list[OffsetFetchResponseGroup] = []
    pending: list[asyncio.Future[ErrorCode] | ErrorCode] = []
    byte_count = 0
    async for group_id, topics in call.each(asked):
        group = OffsetFetchResponseGroup(group_id, [])
        groups.append(group)
        coordinator = _coordinator(broker, call, group_id, byte_count)
        if isinstance(coordinator, ErrorCode):
            pending.append(coordinator)
            continue
        group.topics, size = await _topics(broker, call, coordinator, group_id, topics)
        byte_count += size
        now = _coordinator(broker, call, group_id)
        if now is coordinator:
            pending.append(coordinator.safe())
        elif isinstance(now, ErrorCode):
            pending.append(now)
        else:  # it moved between slices
            pending.append(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    for group, (_, topics), outcome in zip(groups, asked, pending, strict=True):
        group.error_code = outcome if isinstance(outcome, ErrorCode) else await outcome
        if group.error_code:
            group.topics = await _failed(call, topics)
    if call.version < GROUPS_FROM:
        return await _old(call, groups[0])
    return OffsetFetchResponse(0, groups=groups)


def _coordinator(
    broker: Broker, call: Call, group_id: str, byte_count: int = 0
) -> Coordinator | ErrorCode:
    """The group's coordinator; a refusal if the answer has too many bytes already."""
    coordinator = coordinator_for(broker, call, group_id, Operation.DESCRIBE, may_be_nameless=True)
    if isinstance(coordinator, ErrorCode):
        return coordinator
    try:
        check_answer(call.api.key, byte_count)
    except Refuse as refusal:
        return refusal.code
    return coordinator


def _asked(call: Call, request: OffsetFetchRequest) -> Iterator[tuple[str, AskedTopics]]:
    """Groups, and topics of each, as they are gone through: there may be 50,000."""
    if call.version < GROUPS_FROM:
        of_the_group = request.topics
        yield (
            request.group_id,
            None
            if of_the_group is None
            else ((topic.name, topic.partition_indexes or ()) for topic in of_the_group),
        )
        return
    by_id = call.version >= TOPIC_IDS_FROM
    for group in request.groups or ():
        yield (
            group.group_id,
            None
            if group.topics is None
            else (
                (topic.topic_id if by_id else topic.name, topic.partition_indexes or ())
                for topic in group.topics
            ),
        )


async def _topics(
    broker: Broker, call: Call, coordinator: Coordinator, group_id: str, topics: Topics
) -> tuple[list[OffsetFetchResponseTopics], int]:
    """Returns offsets by topic, and how many bytes they have, about.

    The group may change between slices, so each offset is one that it had at some moment.
    """
    group, log = coordinator.states.get(group_id), broker.log
    if topics is None:
        by_name = await _all_of(call, group, log.topics)
        topics = [
            (name, sorted(partitions))
            for name, partitions in sorted(by_name.items())
            if broker.sees(call, Operation.DESCRIBE, ResourceKind.TOPIC, name)
        ]
    answers: list[OffsetFetchResponseTopics] = []
    byte_count = 0
    async for key, partitions in call.each(topics):
        topic = log.topics_by_id.get(key) if isinstance(key, bytes) else log.topics.get(key)
        name = topic.name if topic is not None else "" if isinstance(key, bytes) else key
        topic_id = ZERO_UUID if topic is None else topic.topic_id
        if isinstance(key, bytes) and topic is None:
            topic_id = key
            lines = [_nothing(partition, ErrorCode.UNKNOWN_TOPIC_ID) for partition in partitions]
        elif not broker.allows(call, Operation.DESCRIBE, ResourceKind.TOPIC, name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            lines = [_nothing(partition, code) for partition in partitions]
        else:
            lines = []
            async for partition in call.each(partitions):
                committed = find(group, (name, partition), None if topic is None else topic_id)
                if committed is None:
                    lines.append(_nothing(partition, ErrorCode.NONE))
                else:
                    lines.append(
                        OffsetFetchResponsePartitions(
                            partition, committed.offset, committed.leader_epoch, committed.metadata
                        )
                    )
        byte_count += PARTITION_BYTES * len(lines) + sum([len(one.metadata or "") for one in lines])
        answers.append(OffsetFetchResponseTopics(name, topic_id, lines))
    return answers, byte_count


async def _all_of(
    call: Call, group: Group | None, topics: Mapping[str, Topic]
) -> dict[str, list[int]]:
    """Returns partitions by topic name, without those of topics that are deleted or were then.

    A list that names them makes tools fail for the whole group.
    """
    by_name: dict[str, list[int]] = {}
    async for place in call.each(() if group is None else list(group.offsets)):
        topic = topics.get(place[0])
        if topic is not None and find(group, place, topic.topic_id) is not None:
            by_name.setdefault(place[0], []).append(place[1])
    return by_name


def _nothing(partition: int, code: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition, NOTHING, NOTHING, "", code)


async def _failed(call: Call, topics: Topics) -> list[OffsetFetchResponseTopics]:
    """A group with an error is answered with the error alone."""
    answers: list[OffsetFetchResponseTopics] = []
    async for key, partitions in call.each(topics or ()):
        lines = [_nothing(partition, ErrorCode.NONE) for partition in partitions]
        name, topic_id = ("", key) if isinstance(key, bytes) else (key, ZERO_UUID)
        answers.append(OffsetFetchResponseTopics(name, topic_id, lines))
    return answers


async def _old(call: Call, group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """One group, in the form before version 8."""
    in_partitions = group.error_code if call.version < GROUP_ERROR_FROM else 0
    topics: list[OffsetFetchResponseTopic] = []
    async for topic in call.each(group.topics or ()):
        lines = [
            OffsetFetchResponsePartition(
                one.partition_index,
                one.committed_offset,
                one.committed_leader_epoch,
                one.metadata,
                one.error_code or in_partitions,
            )
            for one in topic.partitions or ()
        ]
        topics.append(OffsetFetchResponseTopic(topic.name, lines))
    return OffsetFetchResponse(0, topics, group.error_code)
