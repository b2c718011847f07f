"""Which requests are served, in which versions, by which handler. ApiVersions answers from it.

Our own requests are served and not listed: Kafka's clients would show their keys as unknown.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from broker.answers.budgets import BUDGETS
from broker.answers.services import Services
from broker.handlers.adopt import handle as adopt
from broker.handlers.alter_client_quotas import handle as alter_client_quotas
from broker.handlers.alter_configs import handle as alter_configs
from broker.handlers.alter_partition_reassignments import (
    handle as alter_partition_reassignments,
)
from broker.handlers.alter_replica_log_dirs import handle as alter_replica_log_dirs
from broker.handlers.api_versions import advertise
from broker.handlers.api_versions import handle as api_versions
from broker.handlers.create_acls import handle as create_acls
from broker.handlers.create_partitions import handle as create_partitions
from broker.handlers.create_topics import handle as create_topics
from broker.handlers.delete_acls import handle as delete_acls
from broker.handlers.delete_groups import handle as delete_groups
from broker.handlers.delete_records import handle as delete_records
from broker.handlers.delete_topics import handle as delete_topics
from broker.handlers.describe_acls import handle as describe_acls
from broker.handlers.describe_client_quotas import handle as describe_client_quotas
from broker.handlers.describe_cluster import handle as describe_cluster
from broker.handlers.describe_configs import handle as describe_configs
from broker.handlers.describe_groups import handle as describe_groups
from broker.handlers.describe_log_dirs import handle as describe_log_dirs
from broker.handlers.describe_producers import handle as describe_producers
from broker.handlers.describe_quorum import handle as describe_quorum
from broker.handlers.describe_topic_partitions import handle as describe_topic_partitions
from broker.handlers.describe_user_scram_credentials import (
    handle as describe_user_scram_credentials,
)
from broker.handlers.elect_leaders import handle as elect_leaders
from broker.handlers.fetch import handle as fetch
from broker.handlers.find_coordinator import handle as find_coordinator
from broker.handlers.heartbeat import handle as heartbeat
from broker.handlers.incremental_alter_configs import handle as incremental_alter_configs
from broker.handlers.init_producer_id import handle as init_producer_id
from broker.handlers.join_group import handle as join_group
from broker.handlers.leave_group import handle as leave_group
from broker.handlers.list_config_resources import handle as list_config_resources
from broker.handlers.list_groups import handle as list_groups
from broker.handlers.list_offsets import handle as list_offsets
from broker.handlers.list_partition_reassignments import (
    handle as list_partition_reassignments,
)
from broker.handlers.list_transactions import handle as list_transactions
from broker.handlers.metadata import handle as metadata
from broker.handlers.offset_commit import handle as offset_commit
from broker.handlers.offset_delete import handle as offset_delete
from broker.handlers.offset_fetch import handle as offset_fetch
from broker.handlers.offset_for_leader_epoch import handle as offset_for_leader_epoch
from broker.handlers.produce import handle as produce
from broker.handlers.read_feed import handle as read_feed
from broker.handlers.sync_group import handle as sync_group
from broker.handlers.unregister_broker import handle as unregister_broker
from broker.handlers.update_features import handle as update_features
from broker.network.call import Call
from logstore.wire.adopt import ADOPT_KEY
from logstore.wire.framing.apis import APIS, PRIVATE_APIS, Api
from logstore.wire.read_feed import READ_FEED_KEY

Handle = Callable[[Services, Call, Any], None]


class Handler(NamedTuple):
    api: Api
    version_min: int
    version_max: int
    handle: Handle
    items_max: int


def _handler(key: int, handle: Handle) -> tuple[int, Handler]:
    api = APIS.get(key) or PRIVATE_APIS[key]
    return key, Handler(api, api.version_min, api.version_max, handle, BUDGETS[key].items_max)


HANDLERS: dict[int, Handler] = dict(
    [
        _handler(0, produce),
        _handler(1, fetch),
        _handler(2, list_offsets),
        _handler(3, metadata),
        _handler(8, offset_commit),
        _handler(9, offset_fetch),
        _handler(10, find_coordinator),
        _handler(11, join_group),
        _handler(12, heartbeat),
        _handler(13, leave_group),
        _handler(14, sync_group),
        _handler(15, describe_groups),
        _handler(16, list_groups),
        _handler(18, api_versions),
        _handler(19, create_topics),
        _handler(20, delete_topics),
        _handler(21, delete_records),
        _handler(22, init_producer_id),
        _handler(23, offset_for_leader_epoch),
        _handler(29, describe_acls),
        _handler(30, create_acls),
        _handler(31, delete_acls),
        _handler(32, describe_configs),
        _handler(33, alter_configs),
        _handler(34, alter_replica_log_dirs),
        _handler(35, describe_log_dirs),
        _handler(37, create_partitions),
        _handler(42, delete_groups),
        _handler(43, elect_leaders),
        _handler(44, incremental_alter_configs),
        _handler(45, alter_partition_reassignments),
        _handler(46, list_partition_reassignments),
        _handler(47, offset_delete),
        _handler(48, describe_client_quotas),
        _handler(49, alter_client_quotas),
        _handler(50, describe_user_scram_credentials),
        _handler(55, describe_quorum),
        _handler(57, update_features),
        _handler(60, describe_cluster),
        _handler(61, describe_producers),
        _handler(64, unregister_broker),
        _handler(66, list_transactions),
        _handler(74, list_config_resources),
        _handler(75, describe_topic_partitions),
        _handler(ADOPT_KEY, adopt),
        _handler(READ_FEED_KEY, read_feed),
    ]
)

advertise((key, row.version_min, row.version_max) for key, row in HANDLERS.items() if key in APIS)
