"""The bytes of Metadata: put together here, they are those of the generic encoder."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from broker.answers.decisions.shown_cluster import INTERNAL_TOPICS, show_replicas
from broker.answers.metadata_bytes import (
    API,
    NOT_ASKED,
    MetadataBytes,
    encode_topic,
    frame_with_topics,
)
from logstore.epoch.log import Topic
from logstore.formats.partition_row import PartitionRow
from logstore.wire.framing.apis import encode_frame
from logstore.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

versions = st.integers(API.version_min, API.version_max)
brokers = st.integers(0, 5) | st.integers(0, 2**31 - 1)
rows = st.builds(
    PartitionRow.new, brokers, st.integers(1, 9), st.lists(brokers, min_size=1, max_size=4)
)
topics = st.builds(
    Topic,
    name=st.text("abc.", min_size=1, max_size=200) | st.sampled_from(sorted(INTERNAL_TOPICS)),
    topic_id=st.binary(min_size=16, max_size=16),
    configs=st.just({}),
    replicas=st.just(3),
    rows=st.lists(rows, max_size=6) | rows.map(lambda row: [row] * 200),
)
live = st.frozensets(st.integers(0, 5))


def described(topic: Topic, live: frozenset[int], operations: int) -> MetadataResponseTopic:
    """The long way."""
    partitions = []
    for number, row in enumerate(topic.rows):
        error, leader, replicas, in_sync, offline = show_replicas(row.broker, row.replicas, live)
        partitions.append(
            MetadataResponsePartition(
                error,
                number,
                leader,
                row.leader_epoch,
                list(replicas),
                list(in_sync),
                list(offline),
            )
        )
    is_internal = topic.name in INTERNAL_TOPICS
    return MetadataResponseTopic(0, topic.name, topic.topic_id, is_internal, partitions, operations)


@given(
    versions,
    st.lists(topics, max_size=3, unique_by=lambda topic: topic.topic_id),
    live,
    st.sampled_from([NOT_ASKED, 0, 3960]),
)
def test_a_frame_is_what_the_generic_encoder_makes(
    version: int, topics: list[Topic], live: frozenset[int], operations: int
) -> None:
    known = MetadataBytes()
    known.see(live)
    head = MetadataResponse(
        brokers=[MetadataResponseBroker(1, "host", 9092, "rack")],
        cluster_id="cluster",
        controller_id=1,
    )
    encoded = [known.topic(version, topic, operations) for topic in topics]
    frame = b"".join(frame_with_topics(5, version, head, [data for data, _ in encoded]))
    again = [known.topic(version, topic, operations) for topic in topics]
    head.topics = [described(topic, live, operations) for topic in topics]

    assert frame == b"".join(encode_frame(5, API, version, head))
    assert again == encoded
    for topic, (_, errors) in zip(head.topics, encoded, strict=True):
        codes = [one.error_code for one in topic.partitions]
        assert errors == Counter(code for code in codes if code)


def topic_of(*rows: PartitionRow) -> Topic:
    return Topic("t", b"t" * 16, {}, 2, list(rows))


def test_what_is_kept_follows_the_rows_and_who_is_alive() -> None:
    known, version = MetadataBytes(), 12
    row = PartitionRow.new(1, 7, (1, 2))
    topic = topic_of(row)

    def shown(live: frozenset[int]) -> bytes:
        return encode_topic(version, described(topic, live, NOT_ASKED))

    known.see(frozenset({1, 2}))
    assert known.topic(version, topic).data == shown(frozenset({1, 2}))
    known.see(frozenset({2}))
    assert known.topic(version, topic).data == shown(frozenset({2}))
    topic.rows = [row.taken_by(broker=2, chain=8, start=0)]
    assert known.topic(version, topic).data != shown(frozenset({2}))
    known.forget(topic.topic_id)
    assert known.topic(version, topic).data == shown(frozenset({2}))


def test_replicas_that_are_alive_are_in_sync() -> None:
    assert show_replicas(1, (1, 2, 3), {1, 3})[1:] == (1, [1, 2, 3], [1, 3], [2])
    assert show_replicas(1, (1, 2, 3), {2})[:2] == (5, -1)
    assert show_replicas(1, (1, 2), set())[1:] == (-1, [1, 2], [], [1, 2])


def test_a_leader_is_a_replica_whatever_its_row_says() -> None:
    assert show_replicas(4, (1, 2), {2, 4})[1:] == (4, [1, 2, 4], [2, 4], [1])
