"""Which broker coordinates a group: the leader of the partition that holds it.

The first request for the coordinator of any group creates `__consumer_offsets`.
"""

from broker.answers.broker import Broker
from broker.groups.decisions.group_partition import OFFSETS_TOPIC, partition_of
from broker.network.call import Call
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.find_coordinator import Coordinator

NO_NODE = -1


def has_offsets_topic(broker: Broker) -> bool:
    return OFFSETS_TOPIC in broker.log.topics


def find_group(broker: Broker, call: Call, group_id: str) -> Coordinator:
    topic = broker.log.topics.get(OFFSETS_TOPIC)
    if topic is None:
        return _no_coordinator(group_id, f"{OFFSETS_TOPIC} is being created; ask again")
    partition = partition_of(group_id, topic.partition_count)
    leader = topic.rows[partition].broker
    listener = call.connection.listener
    row = broker.log.live_brokers().get(leader)
    if row is None or broker.clients.is_fenced:
        return _no_coordinator(group_id, f"partition {partition} of {OFFSETS_TOPIC} has no leader")
    if leader == broker.node_id:
        host, port = listener.address_for(call.connection)
    else:
        host, port = row.address(listener.name)
    return Coordinator(group_id, leader, host, port, ErrorCode.NONE, None)


def _no_coordinator(group_id: str, why: str) -> Coordinator:
    return Coordinator(group_id, NO_NODE, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE, why)
