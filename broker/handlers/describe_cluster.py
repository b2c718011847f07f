"""DescribeCluster, versions 0 to 2: brokers, controller, cluster id.

Brokers that are not alive are fenced, in Kafka's words; version 2 asks for them too (KIP-1073).
There are no controllers with addresses of their own (version 1, KIP-919).
"""

from broker.answers.broker import Broker
from broker.answers.decisions.shown_cluster import show_brokers
from broker.network.call import Call
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS, CONTROLLERS = 1, 2
"""Endpoint types."""


def describe_cluster(
    broker: Broker, call: Call, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        return _wrong_endpoint(request.endpoint_type)
    live = broker.log.live_brokers()
    rows = {**broker.log.brokers, **live} if request.include_fenced_brokers else live
    listener = call.connection.listener
    shown = show_brokers(rows, listener.name, broker.node_id, listener.address_for(call.connection))
    response = DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.controller_id,
        brokers=[DescribeClusterBroker(*one, one.broker not in live) for one in shown],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = broker.cluster_bits(call)
    return response


def _wrong_endpoint(asked: int) -> DescribeClusterResponse:
    code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
    if asked == CONTROLLERS:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
    return DescribeClusterResponse(
        0, code, f"only brokers are described here (endpoint type 1): endpoint_type={asked}", asked
    )
