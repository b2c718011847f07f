"""Topics, partitions, quotas, settings, ACLs and users, read as a whole or by the change feed.

Topics are read before partitions, since a creation writes them the other way round: a topic that is
seen has its partitions. Concurrent changes are in the feed, from the version read before. The
finalized format level comes with all rows: it is raised seldom, and who learns of it late goes on
to write what every version reads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from logstore.errors import LogstoreError
from logstore.formats.acl_row import ACLS_CHANGED
from logstore.formats.cluster_row import CLUSTER, ClusterRow
from logstore.formats.config_row import CONFIGS_CHANGED, BrokerConfigs
from logstore.formats.feed_row import FeedChange
from logstore.formats.partition_row import PartitionRow
from logstore.formats.quota_row import QUOTAS_CHANGED, Quotas
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TOPIC, TopicRow, TopicStatus
from logstore.formats.user_row import USERS_CHANGED, Users
from logstore.ports.registry import Row
from logstore.protocol.rows.acls import AclShards, read_acls
from logstore.protocol.rows.broker_configs import read_broker_configs
from logstore.protocol.rows.changes import read_feed
from logstore.protocol.rows.metadata import SLICE_ROWS, read_partition_row, read_partition_rows
from logstore.protocol.rows.quotas import read_quotas
from logstore.protocol.rows.users import read_users
from logstore.protocol.steps import Gather, GetRow, QueryRows, Steps, sliced
from logstore.slices import Slices, parts_of

ROWS_READ_ONE_BY_ONE_MAX = 600


@dataclass(frozen=True, slots=True)
class RegistryUpdate:
    """Rows as they were read, or written; None where there is no (live) one.

    `version` is the feed's, 0 where it was not read. Rows read were read after all that was known
    of them; those of a write (`is_written`) may have been changed, and that read, before its answer
    came.
    """

    version: int
    topics: Mapping[str, TopicRow | None]
    partitions: Mapping[TopicPartition, PartitionRow | None]
    is_everything: bool = False
    is_written: bool = False
    quotas: Quotas | None = None
    """All of them; None: they were not read."""
    configs: BrokerConfigs | None = None
    """The same."""
    acls: AclShards | None = None
    """The same."""
    users: Users | None = None
    """The same."""
    format_level: int | None = None
    """The finalized one; None: it was not read."""


def read_everything() -> Steps[RegistryUpdate]:
    feed = yield from read_feed()
    level = yield from read_level()
    topics = yield from sliced(_live_topics((yield QueryRows(TOPIC))))
    partitions = yield from read_partition_rows()
    quotas, configs = (yield from read_quotas()), (yield from read_broker_configs())
    acls, users = (yield from read_acls()), (yield from read_users())
    return RegistryUpdate(
        feed.version,
        topics,
        partitions,
        is_everything=True,
        quotas=quotas,
        configs=configs,
        acls=acls,
        users=users,
        format_level=level,
    )


def _live_topics(rows: Sequence[tuple[str, Row]]) -> Slices[dict[str, TopicRow | None]]:
    topics: dict[str, TopicRow | None] = {}
    for some in parts_of(rows, SLICE_ROWS):
        if topics:
            yield
        topics.update((name, _live(TopicRow.of(row))) for name, row in some)
    return topics


def read_level() -> Steps[int | None]:
    """The finalized format level; None without a cluster row."""
    row = yield GetRow(CLUSTER, CLUSTER)
    return None if row is None else ClusterRow.of(row).format_level


def read_update(version: int) -> Steps[RegistryUpdate | None]:
    """Changes since feed `version`; None: no change."""
    feed = yield from read_feed()
    if feed.version == version:
        return None
    changes = feed.since(version)
    if changes is None:
        return (yield from read_everything())
    return (yield from _read_changed(feed.version, changes))


def _read_changed(version: int, changes: Sequence[FeedChange]) -> Steps[RegistryUpdate]:
    topics: dict[str, TopicRow | None] = {}
    wanted: dict[TopicPartition, None] = {}
    quotas = (yield from read_quotas()) if QUOTAS_CHANGED in changes else None
    configs = (yield from read_broker_configs()) if CONFIGS_CHANGED in changes else None
    acls = (yield from read_acls()) if ACLS_CHANGED in changes else None
    users = (yield from read_users()) if USERS_CHANGED in changes else None
    for change in changes:
        if change in (QUOTAS_CHANGED, CONFIGS_CHANGED, ACLS_CHANGED, USERS_CHANGED):
            continue
        if change.partition >= 0:
            wanted[TopicPartition(change.topic_id, change.partition)] = None
        elif change.topic not in topics:
            row = yield GetRow(TOPIC, change.topic)
            topic = topics[change.topic] = None if row is None else _live(TopicRow.of(row))
            if topic is not None:
                wanted.update(
                    dict.fromkeys(
                        TopicPartition(topic.topic_id, n) for n in range(topic.partitions)
                    )
                )
    if len(wanted) > ROWS_READ_ONE_BY_ONE_MAX:
        return (yield from read_everything())
    keys = list(wanted)
    rows: Sequence[PartitionRow | LogstoreError | None] = yield Gather(
        [read_partition_row(*key) for key in keys]
    )
    partitions: dict[TopicPartition, PartitionRow | None] = {}
    for key, outcome in zip(keys, rows, strict=True):
        if isinstance(outcome, LogstoreError):
            raise outcome
        partitions[key] = outcome
    return RegistryUpdate(
        version, topics, partitions, quotas=quotas, configs=configs, acls=acls, users=users
    )


def _live(topic: TopicRow) -> TopicRow | None:
    return topic if topic.status is TopicStatus.LIVE else None
