"""Batches of a task by Produce: in order, each once for one attempt, whatever gets lost."""

import random

import pytest

from logstore.errors import Invalid, OutcomeUnknown, Retryable
from logstore.formats.topic_partition import TopicPartition
from logstore.records.batch import check_batch, read_header
from logstore.records.encode import encode_batch, records_of
from logstore.staging.brokers import BrokerAddress, Brokers
from logstore.staging.sending import BatchSender, of_producer
from logstore.wire.errors import ErrorCode
from tests.logstore.staging.driving import ORDERS, TOPICS
from tests.logstore.staging.producing import PARTITIONS, ProducedCluster
from tests.spark_source.stepped_time import SteppedTime


def sender_of(cluster: ProducedCluster, seed: int = 0, sent_bytes: int = 500) -> BatchSender:
    time = SteppedTime()
    brokers = Brokers(lambda: [BrokerAddress("here", 0)], open_connection=cluster.open)
    sender = BatchSender(
        brokers, clock=time, rng=random.Random(seed), sleep_s=time.pass_s, sent_bytes=sent_bytes
    )
    for name, topic_id in TOPICS.items():
        sender.name_topic(topic_id, name)
    return sender


def send(sender: BatchSender, seed: int = 0) -> dict[TopicPartition, list[bytes]]:
    """Some batches; returns the log that they are to make."""
    rng = random.Random(seed)
    wanted: dict[TopicPartition, list[bytes]] = {}
    for number in range(40):
        key = TopicPartition(rng.choice(list(TOPICS.values())), rng.randrange(PARTITIONS))
        values = [b"%d/%d" % (number, one) for one in range(3)]
        wanted.setdefault(key, []).extend(values)
        sender.add(key, encode_batch(records_of([(None, one) for one in values], timestamp=1)))
    sender.finish()
    return wanted


def test_batches_arrive_in_order_several_partitions_at_a_time() -> None:
    cluster = ProducedCluster(dict(TOPICS))
    sender = sender_of(cluster, sent_bytes=1 << 20)

    wanted = send(sender)
    assert cluster.logs == wanted
    assert cluster.requests < 40
    assert sender.rows == {key: len(values) for key, values in wanted.items()}


@pytest.mark.seeds(20)
def test_lost_answers_and_leaders_that_move_double_nothing(seed: int) -> None:
    cluster = ProducedCluster(dict(TOPICS))
    chance = random.Random(seed)

    def trouble() -> None:
        if chance.random() < 0.2:
            cluster.moved = chance.randrange(2)
            raise chance.choice([Retryable, OutcomeUnknown])("lost")

    cluster.trouble = trouble
    cluster.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT]

    assert send(sender_of(cluster, seed), seed) == cluster.logs


def test_a_final_refusal_is_raised_with_its_partition() -> None:
    cluster = ProducedCluster(dict(TOPICS))
    cluster.errors = [ErrorCode.MESSAGE_TOO_LARGE]

    with pytest.raises(Invalid, match=r"cannot write to \w+-\d: error=MESSAGE_TOO_LARGE"):
        send(sender_of(cluster))


def test_brokers_that_stay_away_end_the_task_in_time() -> None:
    cluster = ProducedCluster(dict(TOPICS))
    sender = sender_of(cluster, sent_bytes=1 << 20)
    sender.add(TopicPartition(ORDERS, 0), encode_batch(records_of([(None, b"v")], timestamp=1)))

    def away() -> None:
        raise Retryable("away")

    cluster.trouble = away
    with pytest.raises(Retryable, match=r"not committed in time: timeout_s=120 .*last=away"):
        sender.finish()


def test_a_batch_of_a_producer_is_whole() -> None:
    batch = encode_batch(records_of([(b"k", b"v")], timestamp=5), compression="lz4")
    stamped = of_producer(batch, 9, 1, 17)

    header = check_batch(memoryview(stamped), 0, len(stamped))
    plain = read_header(batch, 0, len(batch))
    assert header == plain._replace(
        producer_id=9, producer_epoch=1, base_sequence=17, crc=header.crc
    )
