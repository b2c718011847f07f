"""Every row of the registry as it is stored: `logstore inspect registry`."""

from collections.abc import Sequence
from dataclasses import dataclass

from logstore.errors import Corrupt
from logstore.formats.acl_row import ACL, AclRow
from logstore.formats.broker_row import BROKER, BrokerRow
from logstore.formats.chain_row import CHAIN, ChainRow
from logstore.formats.cluster_row import CLUSTER, ClusterRow
from logstore.formats.compaction_row import COMPACTION, CompactionRow
from logstore.formats.config_row import CONFIG, ConfigRow
from logstore.formats.feed_row import CHANGE, FeedRow
from logstore.formats.lease_row import LEASE, LeaseRow
from logstore.formats.number_row import NUMBER, NumberRow
from logstore.formats.partition_row import PartitionRow, partition_pks
from logstore.formats.quota_row import QUOTA, QuotaRow
from logstore.formats.secret_row import SECRET, SecretRow
from logstore.formats.table_row import TABLE, TableRow
from logstore.formats.topic_row import TOPIC, TopicRow
from logstore.formats.user_row import USER, UserRow
from logstore.ports.registry import WRITE_ID, Row
from logstore.protocol.rows.metadata import read_topics
from logstore.protocol.steps import QueryRows, Steps
from logstore.wiring.open import ReadableLog

OTHERS = (
    "probe",
    "trim",
    "format",
)
"""Kinds of row that this version shows and does not know how to decode."""

_KNOWN = {
    CLUSTER: ClusterRow.of,
    BROKER: BrokerRow.of,
    NUMBER: NumberRow.of,
    CHAIN: ChainRow.of,
    TOPIC: TopicRow.of,
    **dict.fromkeys(partition_pks(), PartitionRow.of),
    LEASE: LeaseRow.of,
    CHANGE: FeedRow.of,
    TABLE: TableRow.of,
    COMPACTION: CompactionRow.of,
    CONFIG: ConfigRow.of,
    QUOTA: QuotaRow.of,
    ACL: AclRow.of,
    USER: UserRow.of,
    SECRET: SecretRow.of,
}
_HIDDEN = {USER: "users", SECRET: "key"}
"""Attributes that are not shown: by them passwords can be guessed, or brokers be imitated."""


@dataclass(frozen=True, slots=True)
class RowLine:
    """`fault` is what keeps the row from being decoded; None also for kinds not known here."""

    pk: str
    sk: str
    attributes: Row
    write_id: str
    fault: str | None


def view_registry(log: ReadableLog) -> list[RowLine]:
    """Known kinds in the order of `logstore.formats.row_fields`, each by sk."""
    return [_line(pk, sk, row) for pk in (*_KNOWN, *OTHERS) for sk, row in query_all(log, pk)]


def query_all(log: ReadableLog, pk: str) -> Sequence[tuple[str, Row]]:
    """All rows of `pk` as (sk, row)."""
    return log.runner.run(_query(pk))


def topic_names(log: ReadableLog) -> dict[bytes, str]:
    """Names of topics by id, for those that have one."""
    return {row.topic_id: name for name, row in log.runner.run(read_topics()).items()}


def _query(pk: str) -> Steps[Sequence[tuple[str, Row]]]:
    rows: Sequence[tuple[str, Row]] = yield QueryRows(pk)
    return rows


def _line(pk: str, sk: str, row: Row) -> RowLine:
    attributes: Row = {
        name: "(hidden)" if name == _HIDDEN.get(pk) else value
        for name, value in row.items()
        if name != WRITE_ID
    }
    return RowLine(pk, sk, attributes, str(row.get(WRITE_ID, "")), _fault(pk, row))


def _fault(pk: str, row: Row) -> str | None:
    try:
        if pk in _KNOWN:
            _KNOWN[pk](row)
    except Corrupt as error:
        return str(error)
    return None
