"""The leader of a partition, or a follower nearby: named to clients that asked another broker.

Produce from version 10 and Fetch from version 16 on name the leader, and where it is reached
(KIP-951), as the registry's rows said last; a leader that is not alive is not named.

A leader names a follower in the consumer's rack (KIP-392) that says in its broker row that it has
seen the tail of our chain lately. That is stricter than the ISR that Metadata shows, which is every
replica that is alive (`broker.answers.decisions.shown_cluster`).
A consumer that comes back all the same is served by the leader
(`broker.network.decisions.referrals`).
"""

from broker.answers.broker import Broker
from broker.answers.leader_hint import Hint
from broker.network.call import Call
from logstore.epoch.log import Topic
from logstore.formats.topic_partition import TopicPartition


def own_hint(broker: Broker, call: Call, leader_epoch: int) -> Hint:
    host, port = call.connection.listener.address_for(call.connection)
    return Hint(broker.node_id, leader_epoch, host, port, broker.rack)


def hint_of(broker: Broker, call: Call, topic: Topic, partition: int) -> Hint | None:
    """The leader of a partition that is not led here; None while no live leader is known."""
    row = topic.rows[partition]
    log = broker.log
    known = log.brokers.get(row.broker)
    if row.broker == broker.node_id or known is None or not log.liveness.is_alive(row.broker):
        return None  # ours and not begun yet, or ended and not handed over yet; or gone
    host, port = known.address(call.connection.listener.name)
    return Hint(row.broker, row.leader_epoch, host, port, known.rack or None)


def preferred_replica(broker: Broker, call: Call, topic: Topic, partition: int, rack: str) -> int:
    """A follower in the client's rack that serves our chain, -1 without one (KIP-392)."""
    log = broker.log
    if rack == log.me.rack:
        return -1
    near = [
        replica
        for replica in topic.rows[partition].replicas
        if replica != broker.node_id
        and log.liveness.is_alive(replica)
        and replica in log.brokers
        and log.brokers[replica].rack == rack
        and log.epoch in log.brokers[replica].followed
    ]
    if not near:
        return -1
    may_send = call.connection.referrals.note_asked(
        TopicPartition(topic.topic_id, partition), broker.loop.time()
    )
    return near[partition % len(near)] if may_send else -1
