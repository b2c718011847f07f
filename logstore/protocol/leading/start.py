"""Start of a broker, before it serves: safety rule 3, and the takeover of its own predecessors.

    watch the predecessor → open a chain → broker row → compare the registry with the log → take
    over every chain of this broker id that is not sealed → read topics and partitions

A live twin is refused. A registry older than the log is refused before any partition's row changes:
however many brokers start at once, each compares by itself
(`logstore.protocol.leading.old_registry`). Every step may be repeated by the next start, wherever
this one dies. If no other broker is known, it also removes incomplete changes and takes over every
open chain; otherwise the controller does. A predecessor that was only suspended may resume in
between and create a topic in a chain that is sealed by then; hence the rounds, until every
partition of every live topic is recovered.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from logstore.errors import ConditionFailed, Refused
from logstore.formats.broker_row import BROKER, Address, BrokerRow, BrokerStatus
from logstore.formats.chain_row import CHAIN, ChainRow, ChainStatus
from logstore.formats.levels import NEWEST_LEVEL, OLDEST_LEVEL
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TOPIC, TopicRow, TopicStatus
from logstore.ports.registry import Comparison, Condition, RowAbsent
from logstore.protocol.chain.opening import OLD_REGISTRY, Opened, open_chain
from logstore.protocol.leading.old_registry import compare_with_log
from logstore.protocol.leading.takeover import (
    Known,
    PartlyTaken,
    RecoveredPartition,
    Successor,
    take_over,
)
from logstore.protocol.rows.metadata import read_partition_row, read_partition_rows, read_topics
from logstore.protocol.rows.view import RegistryUpdate, read_everything
from logstore.protocol.rules.disposal import Ruling
from logstore.protocol.steps import GetRow, PutRow, QueryRows, Steps, Wait
from logstore.protocol.topics.life import (
    UnknownTopic,
    delete_partition_rows,
    delete_topic,
    drop_lacking_topic,
    forget_deleted,
)
from logstore.protocol.topics.orphans import remove_orphans
from logstore.version import VERSION

LEASE_S = 3.0
WATCHES_PER_LEASE = 6
ROUNDS_MAX = 10

Recovered = dict[TopicPartition, RecoveredPartition]
"""By topic id and partition."""


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """The starting broker: the fields of its broker row."""

    broker: int
    host: str
    port: int
    rack: str
    lock: str
    listeners: Mapping[str, Address] = field(default_factory=dict)
    topic_defaults: Mapping[str, str] = field(default_factory=dict)
    """Not in that row but in its chain's: of a partition's leader, also after its end."""
    version: str = VERSION
    level_max: int = NEWEST_LEVEL


@dataclass(frozen=True, slots=True)
class Begun:
    """A start whose broker row is written: from here on others expect heartbeats."""

    opened: Opened
    heartbeat: int


@dataclass(frozen=True, slots=True)
class Started:
    broker: int
    opened: Opened
    recovered: Sequence[RecoveredPartition]
    update: RegistryUpdate


def start(cluster_id: bytes, me: BrokerInfo) -> Steps[Started]:
    """Both halves. Raises `Refused`: a live twin, or a registry older than the log."""
    begun = yield from begin(cluster_id, me)
    return (yield from finish(cluster_id, me, begun))


def begin(cluster_id: bytes, me: BrokerInfo) -> Steps[Begun]:
    predecessor = yield from _watch_predecessor(me)
    opened = yield from open_chain(
        cluster_id,
        me.broker,
        lease_s=LEASE_S,
        topic_defaults=me.topic_defaults,
        level_max=me.level_max,
    )
    heartbeat = yield from _put_broker_row(me, opened.epoch, predecessor)
    return Begun(opened, heartbeat)


def finish(cluster_id: bytes, me: BrokerInfo, begun: Begun) -> Steps[Started]:
    """May take longer than a lease: the caller must send heartbeats concurrently."""
    opened = begun.opened
    recovered: Recovered = {}
    successor = Successor(me.broker, opened.epoch)
    is_alone = yield from _is_alone(me.broker)
    read = yield from compare_with_log(
        cluster_id, opened.epoch, lambda row: is_alone or row.broker == me.broker
    )
    if is_alone:
        yield from _recover_everything(cluster_id, successor, recovered, read.get)
    else:
        yield from _take_over_all(cluster_id, successor, recovered, read.get, is_alone=False)
    update = yield from read_everything()
    return Started(me.broker, opened, list(recovered.values()), update)


def _is_alone(broker: int) -> Steps[bool]:
    """Whether every other broker that is registered has ended in good order."""
    for sk, row in (yield QueryRows(BROKER)):
        if sk != str(broker) and BrokerRow.of(row).status is not BrokerStatus.STOPPED:
            return False
    return True


def _watch_predecessor(me: BrokerInfo) -> Steps[BrokerRow | None]:
    """The row of this broker's last start, once that is known to be dead."""
    row = yield GetRow(BROKER, str(me.broker))
    if row is None:
        return None
    seen = BrokerRow.of(row)
    if seen.lock == me.lock or seen.status in (BrokerStatus.STOPPED, BrokerStatus.FENCED):
        return seen  # we hold its lock, it stopped in good order, or it was fenced
    for _ in range(WATCHES_PER_LEASE):
        yield Wait(LEASE_S / WATCHES_PER_LEASE)
        now = BrokerRow.of((yield GetRow(BROKER, str(me.broker))) or row)
        if (now.epoch, now.heartbeat) != (seen.epoch, seen.heartbeat):
            raise Refused(
                f"broker {me.broker} is alive elsewhere: address={now.host}:{now.port}; "
                "stop it, or choose another --broker"
            )
    return seen


def _put_broker_row(me: BrokerInfo, epoch: int, predecessor: BrokerRow | None) -> Steps[int]:
    heartbeat = 0 if predecessor is None else predecessor.heartbeat + 1
    row = BrokerRow(
        epoch=epoch,
        heartbeat=heartbeat,
        host=me.host,
        port=me.port,
        rack=me.rack,
        lock=me.lock,
        listeners=me.listeners,
        version=me.version,
        feed=0,
        level_min=OLDEST_LEVEL,
        level_max=me.level_max,
    ).row()
    conditions: list[Condition] = [RowAbsent()]
    if predecessor is not None:
        conditions = [Comparison("epoch", "=", predecessor.epoch)]
        if predecessor.lock != me.lock:
            # Without its lock we know it to be dead by its silence, which must last until now. With
            # it, a heartbeat that lands late is a dead broker's.
            conditions.append(Comparison("heartbeat", "=", predecessor.heartbeat))
    try:
        yield PutRow(BROKER, str(me.broker), row, conditions)
    except ConditionFailed as failed:
        raise _started_twice(me.broker) from failed
    return heartbeat


def _started_twice(broker: int) -> Refused:
    return Refused(
        f"broker {broker} was started twice at once; stop one, or choose another --broker"
    )


def _recover_everything(
    cluster_id: bytes, successor: Successor, recovered: Recovered, known: Known
) -> Steps[None]:
    """Take over until `recovered` has every partition of every live topic."""
    for _ in range(ROUNDS_MAX):
        yield from _take_over_all(cluster_id, successor, recovered, known, is_alone=True)
        topics = yield from _clear_away(cluster_id, recovered)
        if (yield from _settle(cluster_id, topics, recovered)):
            yield from forget_deleted()
            return
    raise _started_twice(successor.broker)  # rows keep coming, or name a chain younger than ours


def _take_over_all(
    cluster_id: bytes, successor: Successor, recovered: Recovered, known: Known, *, is_alone: bool
) -> Steps[None]:
    for epoch in (yield from _chains_to_take(successor, is_alone=is_alone)):
        try:
            taken = yield from take_over(
                cluster_id, epoch, successor.broker, lambda *_: successor, known
            )
        except PartlyTaken as partly:
            raise partly.first from partly
        for one in taken:
            recovered[one.topic_partition] = one


def _chains_to_take(successor: Successor, *, is_alone: bool) -> Steps[list[int]]:
    """Chains of earlier starts that are not sealed, and sealed ones that rows still name."""
    epochs = set()
    for sk, row in (yield QueryRows(CHAIN)):
        chain = ChainRow.of(row)
        if chain.status is not ChainStatus.SEALED and (
            is_alone or chain.broker == successor.broker
        ):
            epochs.add(int(sk))
    for partition in (yield from read_partition_rows()).values():
        if is_alone or partition.broker == successor.broker:
            epochs.add(partition.chain)
    return sorted(epoch for epoch in epochs if epoch < successor.chain)


def _clear_away(cluster_id: bytes, recovered: Recovered) -> Steps[dict[str, TopicRow]]:
    """Finish deletions, drop partitions whose topic was never created; the topics that live."""
    topics: dict[str, TopicRow] = yield from read_topics()
    for name, topic in list(topics.items()):
        if topic.status is TopicStatus.DELETING:
            yield from delete_partition_rows(topic.topic_id, topic.partitions)
            with suppress(UnknownTopic):  # a predecessor that still runs was faster
                yield from delete_topic(name, topic.topic_id)
            del topics[name]
    live = {topic.topic_id for topic in topics.values()}
    for topic_id in sorted({key.topic_id for key in recovered} - live):
        mine = {key.partition: one.row for key, one in recovered.items() if key[0] == topic_id}
        ruling = yield from remove_orphans(cluster_id, topic_id, mine)
        if ruling is None:
            topics |= yield from _live_topics(topic_id)
            continue
        _check_half_done(ruling, f"the row of topic {topic_id.hex()}")
        for partition in mine:
            del recovered[TopicPartition(topic_id, partition)]
    return topics


def _live_topics(topic_id: bytes) -> Steps[dict[str, TopicRow]]:
    """The topic by name, unless it is gone again."""
    topics = yield from read_topics()
    return {
        name: topic
        for name, topic in topics.items()
        if topic.topic_id == topic_id and topic.status is TopicStatus.LIVE
    }


def _check_half_done(ruling: Ruling, lacking: str) -> None:
    """Raises `Refused` where rows were lost, and not left by a creation or deletion that died."""
    if not ruling.may:
        raise Refused(f"the registry lacks {lacking}: {ruling.why}: {OLD_REGISTRY}")


def _settle(cluster_id: bytes, topics: dict[str, TopicRow], recovered: Recovered) -> Steps[bool]:
    """Drop topics that lack a partition row; False: some row names a chain not taken over yet.

    A put of a topic row that was given up may land after an earlier start has removed its
    partitions. The creation of that topic was never acknowledged.

    A predecessor that still runs may delete a topic concurrently. A deletion changes the topic row
    first, so a missing partition row is a loss only if the topic row, read after it, is live.
    """
    is_settled = True
    for name, topic in list(topics.items()):
        mine = [TopicPartition(topic.topic_id, number) for number in range(topic.partitions)]
        lacking = [key for key in mine if key not in recovered]
        for key in lacking:
            if (yield from read_partition_row(*key)) is None:
                if not (yield from _is_live(name, topic.topic_id)):
                    is_settled = False  # deleted since the topics were read
                    break
                what = f"the row of partition {key[1]} of topic {name}"
                _check_half_done(
                    (yield from drop_lacking_topic(cluster_id, name, topic.topic_id)), what
                )
                del topics[name]
                for recovered_key in set(mine) - set(lacking):
                    del recovered[recovered_key]
                break
        else:
            is_settled = is_settled and not lacking
    return is_settled


def _is_live(name: str, topic_id: bytes) -> Steps[bool]:
    row = yield GetRow(TOPIC, name)
    topic = None if row is None else TopicRow.of(row)
    return topic is not None and topic.topic_id == topic_id and topic.status is TopicStatus.LIVE
