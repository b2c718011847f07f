"""Which requests are served, in which versions, by which handler. ApiVersions answers from it.

Our own requests are served and not listed: Kafka's clients would show their keys as unknown.
"""

from broker.handlers.adopt import handle as adopt
from broker.handlers.alter_client_quotas import alter_client_quotas
from broker.handlers.alter_configs import alter_configs
from broker.handlers.alter_partition_reassignments import (
    handle as alter_partition_reassignments,
)
from broker.handlers.alter_replica_log_dirs import handle as alter_replica_log_dirs
from broker.handlers.api_versions import advertise
from broker.handlers.api_versions import handle as api_versions
from broker.handlers.create_acls import create_acls
from broker.handlers.create_partitions import handle as create_partitions
from broker.handlers.create_topics import handle as create_topics
from broker.handlers.delete_acls import delete_acls
from broker.handlers.delete_groups import handle as delete_groups
from broker.handlers.delete_records import handle as delete_records
from broker.handlers.delete_topics import handle as delete_topics
from broker.handlers.describe_acls import describe_acls
from broker.handlers.describe_client_quotas import describe_client_quotas
from broker.handlers.describe_cluster import handle as describe_cluster
from broker.handlers.describe_configs import describe_configs
from broker.handlers.describe_groups import handle as describe_groups
from broker.handlers.describe_log_dirs import handle as describe_log_dirs
from broker.handlers.describe_producers import handle as describe_producers
from broker.handlers.describe_quorum import handle as describe_quorum
from broker.handlers.describe_topic_partitions import handle as describe_topic_partitions
from broker.handlers.describe_user_scram_credentials import describe_user_scram_credentials
from broker.handlers.elect_leaders import handle as elect_leaders
from broker.handlers.fetch import handle as fetch
from broker.handlers.find_coordinator import handle as find_coordinator
from broker.handlers.heartbeat import handle as heartbeat
from broker.handlers.incremental_alter_configs import incremental_alter_configs
from broker.handlers.init_producer_id import handle as init_producer_id
from broker.handlers.join_group import handle as join_group
from broker.handlers.leave_group import handle as leave_group
from broker.handlers.list_config_resources import list_config_resources
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
from broker.network.authorizer import Operation
from broker.requests.table import Row, by_itself, coroutine, plain, task
from broker.requests.way import By, ClusterRight, LeaseCheck, Order, Place
from logstore.wire.adopt import ADOPT_KEY
from logstore.wire.framing.apis import APIS
from logstore.wire.read_feed import READ_FEED_KEY

_DESCRIBE_QUOTAS = ClusterRight(Operation.DESCRIBE_CONFIGS, "not allowed to describe quotas")
_DESCRIBE_USERS = ClusterRight(Operation.DESCRIBE, "not allowed to describe users")
_LIST_RESOURCES = ClusterRight(Operation.DESCRIBE_CONFIGS, "not allowed to list resources")

HANDLERS: dict[int, Row] = dict(
    [
        by_itself(0, produce),
        by_itself(1, fetch),
        by_itself(2, list_offsets),
        by_itself(3, metadata),
        by_itself(8, offset_commit),
        by_itself(9, offset_fetch),
        by_itself(10, find_coordinator),
        by_itself(11, join_group),
        by_itself(12, heartbeat),
        by_itself(13, leave_group),
        by_itself(14, sync_group),
        by_itself(15, describe_groups),
        by_itself(16, list_groups),
        by_itself(18, api_versions),
        by_itself(19, create_topics),
        by_itself(20, delete_topics),
        by_itself(21, delete_records),
        by_itself(22, init_producer_id),
        by_itself(23, offset_for_leader_epoch),
        plain(29, describe_acls, By.RESOURCE, Order.FREE, LeaseCheck.NONE),
        coroutine(30, create_acls, By.RESOURCE, Order.FREE, LeaseCheck.NONE),
        coroutine(31, delete_acls, By.RESOURCE, Order.FREE, LeaseCheck.NONE),
        coroutine(32, describe_configs, By.RESOURCE, Order.FREE, LeaseCheck.NONE),
        task(33, alter_configs, By.RESOURCE, Order.FREE, LeaseCheck.NONE, Place.CHANGES),
        by_itself(34, alter_replica_log_dirs),
        by_itself(35, describe_log_dirs),
        by_itself(37, create_partitions),
        by_itself(42, delete_groups),
        by_itself(43, elect_leaders),
        task(
            44, incremental_alter_configs, By.RESOURCE, Order.FREE, LeaseCheck.NONE, Place.CHANGES
        ),
        by_itself(45, alter_partition_reassignments),
        by_itself(46, list_partition_reassignments),
        by_itself(47, offset_delete),
        coroutine(48, describe_client_quotas, _DESCRIBE_QUOTAS, Order.FREE, LeaseCheck.NONE),
        task(49, alter_client_quotas, By.RESOURCE, Order.FREE, LeaseCheck.NONE, Place.CHANGES),
        coroutine(
            50, describe_user_scram_credentials, _DESCRIBE_USERS, Order.FREE, LeaseCheck.NONE
        ),
        by_itself(55, describe_quorum),
        by_itself(57, update_features),
        by_itself(60, describe_cluster),
        by_itself(61, describe_producers),
        by_itself(64, unregister_broker),
        by_itself(66, list_transactions),
        coroutine(74, list_config_resources, _LIST_RESOURCES, Order.FREE, LeaseCheck.NONE),
        by_itself(75, describe_topic_partitions),
        by_itself(ADOPT_KEY, adopt),
        by_itself(READ_FEED_KEY, read_feed),
    ]
)

advertise((key, row.version_min, row.version_max) for key, row in HANDLERS.items() if key in APIS)
