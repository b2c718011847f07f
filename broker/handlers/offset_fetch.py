"""OffsetFetch, versions 1 to 10: how far groups have read; from version 8 several groups at once,
in version 10 by the ids of topics.

Without a committed offset the answer is -1 and no error: the consumer then does as configured
(auto.offset.reset). No list of topics (null, from version 2) means all that the group has in topics
that are there. Errors concern a whole group; before version 2 there is no place for them but each
partition.

Not done: transactions, so no offset is ever unstable and `require_stable` changes nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from broker.answers.budgets import check_answer
from broker.answers.error_codes import Refuse
from broker.answers.group_requests import answer_read, coordinator_for, when_leased
from broker.answers.nested_frames import nested_frame
from broker.answers.repeats import AskedTopics, Topics, merge_groups
from broker.answers.services import Services
from broker.groups.coordinator import Coordinator
from broker.groups.decisions.group import Group
from broker.groups.decisions.offsets import find
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from logstore.epoch.log import Topic
from logstore.slices import Slices, emptied
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
SLICE_PARTITIONS = 500
SLICE_OFFSETS = 2_000
PARTITION_BYTES = 24
"""Of an answer, without the metadata of the committed offset."""


def handle(broker: Services, call: Call, request: OffsetFetchRequest) -> None:
    when_leased(broker, call, partial(_handle, broker, call, request))


def _handle(broker: Services, call: Call, request: OffsetFetchRequest) -> None:
    broker.turns.begin(call, _find_all(broker, call, request))


def _find_all(broker: Services, call: Call, request: OffsetFetchRequest) -> Slices[None]:
    merged = yield from merge_groups(_asked(call, request))
    yield from emptied(request.groups)
    yield from emptied(request.topics)
    yield from _OffsetFetch(broker, call, merged).find_all()


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


class _OffsetFetch:
    """Answers once every group asked for has answered."""

    def __init__(self, broker: Services, call: Call, asked: list[tuple[str, Topics]]) -> None:
        self._broker = broker
        self._call = call
        self._asked = asked
        self._groups: list[OffsetFetchResponseGroup | None] = [None] * len(asked)
        self._missing_count = len(asked)
        self._byte_count = 0
        self._was_fenced = broker.log.fenced.is_set()

    def find_all(self) -> Slices[None]:
        if not self._asked:
            self._answer()
        for number, (group_id, _) in enumerate(self._asked):
            coordinator = coordinator_for(
                self._broker, self._call, group_id, Operation.DESCRIBE, may_be_nameless=True
            )
            if not isinstance(coordinator, ErrorCode):
                try:
                    check_answer(self._call.api.key, self._byte_count)
                except Refuse as refusal:
                    coordinator = refusal.code
            if isinstance(coordinator, ErrorCode):
                self._put(number, OffsetFetchResponseGroup(group_id, [], coordinator))
            else:
                filler = yield from self._filler(number, coordinator)
                now = coordinator_for(
                    self._broker, self._call, group_id, Operation.DESCRIBE, may_be_nameless=True
                )
                if now is coordinator:
                    coordinator.when_safe(filler)
                else:  # it moved between slices
                    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                    filler(now if isinstance(now, ErrorCode) else loading)
            yield

    def _filler(self, number: int, coordinator: Coordinator) -> Slices[Callable[[ErrorCode], None]]:
        """Answers with the offsets known now, once all of them are committed.

        Later ones are left out: they may never be committed, and a consumer that had gone on from
        there would see the offset go back.
        """
        group_id, topics = self._asked[number]
        known, byte_count = yield from _topics(
            self._broker, self._call, coordinator, group_id, topics
        )
        self._byte_count += byte_count

        def done(code: ErrorCode) -> None:
            self._put(number, OffsetFetchResponseGroup(group_id, [] if code else known, code))

        return done

    def _put(self, number: int, group: OffsetFetchResponseGroup) -> None:
        self._groups[number] = group
        self._missing_count -= 1
        if not self._missing_count:
            self._answer()

    def _answer(self) -> None:
        self._broker.turns.begin(self._call, self._encode())

    def _encode(self) -> Slices[None]:
        call = self._call
        groups = [group for group in self._groups if group is not None]
        for number, (group, (_, topics)) in enumerate(zip(groups, self._asked, strict=True), 1):
            if group.error_code:
                group.topics = yield from _failed(topics)
            if number % SLICE_PARTITIONS == 0:
                yield
        if call.version < GROUPS_FROM:
            response = yield from _old(call.version, groups[0])
            path: tuple[str, ...] = ("topics", "partitions")
        else:
            response = OffsetFetchResponse(0, groups=groups)
            path = ("groups", "topics", "partitions")
        call.say_throttle(response)
        call.note_errors(response)
        head = (call.correlation_id, call.api, call.version)
        buffers = yield from nested_frame(*head, response, path)
        self._leave(lambda: call.answer_bytes(buffers))
        yield from self._free()

    def _free(self) -> Slices[None]:
        freed = zip(self._groups, self._asked, strict=True)
        for number, (group, (_, topics)) in enumerate(freed, 1):
            yield from emptied(None if group is None else group.topics)
            yield from emptied(topics)
            if number % SLICE_PARTITIONS == 0:
                yield
        yield from emptied(self._groups)
        yield from emptied(self._asked)

    def _leave(self, answer: Callable[[], None]) -> None:
        answer_read(self._broker, self._call, answer, was_fenced=self._was_fenced)


def _topics(
    broker: Services, call: Call, coordinator: Coordinator, group_id: str, topics: Topics
) -> Slices[tuple[list[OffsetFetchResponseTopics], int]]:
    """And how many bytes they have, about.

    The group may change between slices, so each offset is one that it had at some moment.
    """
    group, log = coordinator.states.get(group_id), broker.log
    if topics is None:
        by_name = yield from _all_of(group, log.topics)
        topics = [
            (name, sorted(partitions))
            for name, partitions in sorted(by_name.items())
            if broker.allows(call, Operation.DESCRIBE, ResourceKind.TOPIC, name)
        ]
    answers: list[OffsetFetchResponseTopics] = []
    count = byte_count = 0
    for key, partitions in topics:
        count += 1 + len(partitions)
        if count > SLICE_PARTITIONS:
            count = 0
            yield
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
            for partition in partitions:
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


def _all_of(group: Group | None, topics: Mapping[str, Topic]) -> Slices[dict[str, list[int]]]:
    """Returns partitions by topic name, without those of topics that are deleted or were then.

    A list that names them makes tools fail for the whole group.
    """
    by_name: dict[str, list[int]] = {}
    for number, place in enumerate(() if group is None else list(group.offsets), 1):
        topic = topics.get(place[0])
        if topic is not None and find(group, place, topic.topic_id) is not None:
            by_name.setdefault(place[0], []).append(place[1])
        if number % SLICE_OFFSETS == 0:
            yield
    return by_name


def _nothing(partition: int, code: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition, NOTHING, NOTHING, "", code)


def _failed(topics: Topics) -> Slices[list[OffsetFetchResponseTopics]]:
    """A group with an error is answered with the error alone."""
    answers: list[OffsetFetchResponseTopics] = []
    count = 0
    for key, partitions in topics or ():
        count += 1 + len(partitions)
        if count > SLICE_PARTITIONS:
            count = 0
            yield
        lines = [_nothing(partition, ErrorCode.NONE) for partition in partitions]
        name, topic_id = ("", key) if isinstance(key, bytes) else (key, ZERO_UUID)
        answers.append(OffsetFetchResponseTopics(name, topic_id, lines))
    return answers


def _old(version: int, group: OffsetFetchResponseGroup) -> Slices[OffsetFetchResponse]:
    """One group, in the form before version 8."""
    in_partitions = group.error_code if version < GROUP_ERROR_FROM else 0
    topics: list[OffsetFetchResponseTopic] = []
    for topic in group.topics or ():
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
        yield
    return OffsetFetchResponse(0, topics, group.error_code)
