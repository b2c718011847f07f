"""Which requests are served, in which versions, by which handler. ApiVersions answers from it.

Our own requests are served and not listed: Kafka's clients would show their keys as unknown.
"""

from broker.handlers.adopt import adopt
from broker.handlers.alter_client_quotas import alter_client_quotas
from broker.handlers.alter_configs import alter_configs
from broker.handlers.alter_partition_reassignments import alter_partition_reassignments
from broker.handlers.alter_replica_log_dirs import alter_replica_log_dirs
from broker.handlers.alter_user_scram_credentials import alter_user_scram_credentials
from broker.handlers.api_versions import advertise, api_versions
from broker.handlers.create_acls import create_acls
from broker.handlers.create_partitions import create_partitions
from broker.handlers.create_topics import create_topics
from broker.handlers.delete_acls import delete_acls
from broker.handlers.delete_groups import delete_groups
from broker.handlers.delete_records import delete_records
from broker.handlers.delete_topics import delete_topics
from broker.handlers.describe_acls import describe_acls
from broker.handlers.describe_client_quotas import describe_client_quotas
from broker.handlers.describe_cluster import describe_cluster
from broker.handlers.describe_configs import describe_configs
from broker.handlers.describe_groups import describe_groups
from broker.handlers.describe_log_dirs import describe_log_dirs
from broker.handlers.describe_producers import describe_producers
from broker.handlers.describe_quorum import describe_quorum
from broker.handlers.describe_topic_partitions import describe_topic_partitions
from broker.handlers.describe_user_scram_credentials import describe_user_scram_credentials
from broker.handlers.elect_leaders import elect_leaders
from broker.handlers.fetch import fetch
from broker.handlers.find_coordinator import find_coordinator
from broker.handlers.heartbeat import heartbeat
from broker.handlers.incremental_alter_configs import incremental_alter_configs
from broker.handlers.init_producer_id import init_producer_id
from broker.handlers.join_group import join_group
from broker.handlers.leave_group import leave_group
from broker.handlers.list_config_resources import list_config_resources
from broker.handlers.list_groups import list_groups
from broker.handlers.list_offsets import list_offsets
from broker.handlers.list_partition_reassignments import list_partition_reassignments
from broker.handlers.list_transactions import list_transactions
from broker.handlers.metadata import metadata
from broker.handlers.offset_commit import offset_commit
from broker.handlers.offset_delete import offset_delete
from broker.handlers.offset_fetch import offset_fetch
from broker.handlers.offset_for_leader_epoch import offset_for_leader_epoch
from broker.handlers.produce import produce
from broker.handlers.read_feed import read_feed
from broker.handlers.sasl_authenticate import sasl_authenticate
from broker.handlers.sasl_handshake import sasl_handshake
from broker.handlers.sync_group import sync_group
from broker.handlers.unregister_broker import unregister_broker
from broker.handlers.update_features import update_features
from broker.network.authorizer import Operation
from broker.requests.table import Row, by_itself, coroutine, plain, task
from broker.requests.way import By, ClusterRight, LeaseCheck, Order, Place
from logstore.wire.adopt import ADOPT_KEY
from logstore.wire.framing.apis import APIS
from logstore.wire.read_feed import READ_FEED_KEY

_DESCRIBE_LOG_DIRS = ClusterRight(Operation.DESCRIBE, "not allowed to see log directories")
_DESCRIBE_QUORUM = ClusterRight(Operation.DESCRIBE, "not allowed to see the quorum")
_DESCRIBE_QUOTAS = ClusterRight(Operation.DESCRIBE_CONFIGS, "not allowed to describe quotas")
_DESCRIBE_USERS = ClusterRight(Operation.DESCRIBE, "not allowed to describe users")
_ELECT_LEADERS = ClusterRight(Operation.ALTER, "not allowed to elect leaders")
_LIST_REASSIGNMENTS = ClusterRight(Operation.DESCRIBE, "not allowed to see reassignments")
_LIST_RESOURCES = ClusterRight(Operation.DESCRIBE_CONFIGS, "not allowed to list resources")
_READ_FEED = ClusterRight(Operation.CLUSTER_ACTION, "only brokers may ask for that")
_REASSIGN = ClusterRight(Operation.ALTER, "not allowed to reassign partitions")
_UNREGISTER = ClusterRight(Operation.ALTER, "not allowed to unregister brokers")
_UPDATE_FEATURES = ClusterRight(Operation.ALTER, "not allowed to change features")

HANDLERS: dict[int, Row] = dict(
    [
        by_itself(0, produce, By.RESOURCE, Order.KEPT, LeaseCheck.NONE),
        by_itself(1, fetch, By.RESOURCE, Order.FREE, LeaseCheck.AROUND),
        coroutine(2, list_offsets, By.RESOURCE, Order.FREE, LeaseCheck.NONE),
        coroutine(3, metadata, By.RESOURCE, Order.FREE, LeaseCheck.NONE),
        coroutine(8, offset_commit, By.RESOURCE, Order.KEPT, LeaseCheck.NONE),
        coroutine(9, offset_fetch, By.RESOURCE, Order.FREE, LeaseCheck.AROUND),
        coroutine(10, find_coordinator, By.RESOURCE, Order.FREE, LeaseCheck.NONE),
        plain(11, join_group, By.RESOURCE, Order.FREE, LeaseCheck.NONE),
        plain(12, heartbeat, By.RESOURCE, Order.FREE, LeaseCheck.BEFORE),
        coroutine(13, leave_group, By.RESOURCE, Order.KEPT, LeaseCheck.NONE),
        plain(14, sync_group, By.RESOURCE, Order.FREE, LeaseCheck.NONE),
        coroutine(15, describe_groups, By.RESOURCE, Order.FREE, LeaseCheck.AROUND),
        coroutine(16, list_groups, By.RESOURCE, Order.FREE, LeaseCheck.AROUND),
        plain(17, sasl_handshake, By.NOTHING, Order.FREE, LeaseCheck.NONE),
        plain(18, api_versions, By.NOTHING, Order.FREE, LeaseCheck.NONE),
        task(19, create_topics, By.RESOURCE, Order.KEPT, LeaseCheck.NONE, Place.CHANGES),
        task(20, delete_topics, By.RESOURCE, Order.KEPT, LeaseCheck.NONE, Place.CHANGES),
        task(21, delete_records, By.RESOURCE, Order.KEPT, LeaseCheck.NONE, Place.CHANGES),
        plain(22, init_producer_id, By.RESOURCE, Order.FREE, LeaseCheck.NONE),
        coroutine(23, offset_for_leader_epoch, By.RESOURCE, Order.FREE, LeaseCheck.NONE),
        coroutine(29, describe_acls, By.RESOURCE, Order.FREE, LeaseCheck.NONE),
        task(30, create_acls, By.RESOURCE, Order.KEPT, LeaseCheck.NONE, Place.CHANGES),
        task(31, delete_acls, By.RESOURCE, Order.KEPT, LeaseCheck.NONE, Place.CHANGES),
        coroutine(32, describe_configs, By.RESOURCE, Order.FREE, LeaseCheck.NONE),
        task(33, alter_configs, By.RESOURCE, Order.KEPT, LeaseCheck.NONE, Place.CHANGES),
        coroutine(34, alter_replica_log_dirs, By.RESOURCE, Order.FREE, LeaseCheck.NONE),
        task(35, describe_log_dirs, _DESCRIBE_LOG_DIRS, Order.FREE, LeaseCheck.NONE, Place.SIZES),
        plain(36, sasl_authenticate, By.NOTHING, Order.FREE, LeaseCheck.NONE),
        task(37, create_partitions, By.RESOURCE, Order.KEPT, LeaseCheck.NONE, Place.CHANGES),
        coroutine(42, delete_groups, By.RESOURCE, Order.KEPT, LeaseCheck.NONE),
        task(43, elect_leaders, _ELECT_LEADERS, Order.FREE, LeaseCheck.NONE, None),
        task(
            44, incremental_alter_configs, By.RESOURCE, Order.KEPT, LeaseCheck.NONE, Place.CHANGES
        ),
        task(
            45, alter_partition_reassignments, _REASSIGN, Order.KEPT, LeaseCheck.NONE, Place.CHANGES
        ),
        coroutine(
            46, list_partition_reassignments, _LIST_REASSIGNMENTS, Order.FREE, LeaseCheck.NONE
        ),
        coroutine(47, offset_delete, By.RESOURCE, Order.KEPT, LeaseCheck.NONE),
        coroutine(48, describe_client_quotas, _DESCRIBE_QUOTAS, Order.FREE, LeaseCheck.NONE),
        task(49, alter_client_quotas, By.RESOURCE, Order.KEPT, LeaseCheck.NONE, Place.CHANGES),
        coroutine(
            50, describe_user_scram_credentials, _DESCRIBE_USERS, Order.FREE, LeaseCheck.NONE
        ),
        task(
            51,
            alter_user_scram_credentials,
            By.RESOURCE,
            Order.KEPT,
            LeaseCheck.NONE,
            Place.CHANGES,
        ),
        coroutine(55, describe_quorum, _DESCRIBE_QUORUM, Order.FREE, LeaseCheck.NONE),
        task(57, update_features, _UPDATE_FEATURES, Order.KEPT, LeaseCheck.NONE, Place.CHANGES),
        plain(60, describe_cluster, By.NOTHING, Order.FREE, LeaseCheck.NONE),
        coroutine(61, describe_producers, By.RESOURCE, Order.FREE, LeaseCheck.NONE),
        task(64, unregister_broker, _UNREGISTER, Order.KEPT, LeaseCheck.NONE, Place.CHANGES),
        coroutine(66, list_transactions, By.NOTHING, Order.FREE, LeaseCheck.NONE),
        coroutine(74, list_config_resources, _LIST_RESOURCES, Order.FREE, LeaseCheck.NONE),
        coroutine(75, describe_topic_partitions, By.RESOURCE, Order.FREE, LeaseCheck.NONE),
        task(ADOPT_KEY, adopt, By.RESOURCE, Order.FREE, LeaseCheck.NONE, None),
        task(READ_FEED_KEY, read_feed, _READ_FEED, Order.FREE, LeaseCheck.NONE, None),
    ]
)

advertise((key, row.version_min, row.version_max) for key, row in HANDLERS.items() if key in APIS)
