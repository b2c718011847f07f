"""Finalizing a level: only when every broker can read it, whatever starts or dies in between."""

import asyncio
from dataclasses import replace

import pytest

from logstore.errors import Invalid, Refused
from logstore.formats.broker_row import BROKER, BrokerRow, BrokerStatus
from logstore.formats.chain_row import CHAIN, ChainRow, ChainStatus, chain_sk
from logstore.formats.cluster_row import CLUSTER, ClusterRow
from logstore.formats.keys import level_key, level_of_key
from logstore.formats.levels import NEWEST_LEVEL
from logstore.protocol.chain.opening import open_chain
from logstore.protocol.leading.start import BrokerInfo, begin
from logstore.protocol.leading.upgrade import (
    UpgradeView,
    finalize,
    find_hindrances,
    read_marked_level,
    read_view,
)
from logstore.protocol.rows.changes import read_feed
from logstore.protocol.steps import PutRow, UpdateRow
from logstore.testing.scripted import resume, stop_before
from logstore.testing.simulated_rows import at_once
from logstore.testing.virtual_loop import run
from tests.golden.samples import CLUSTER_ID, EPOCH
from tests.logstore.protocol.built import BuiltChain

OLD = BrokerRow(epoch=1, heartbeat=3, host="h", port=1, rack="", lock="l")
NEW = replace(OLD, version="0.2.0", level_max=2)


class Cluster(BuiltChain):
    """A registry of level 1, and the rows of brokers that are given."""

    def __init__(self, **brokers: BrokerRow) -> None:
        super().__init__()
        self.register_cluster(EPOCH)
        for name, row in brokers.items():
            self.put_broker(int(name.removeprefix("b")), row)

    def put_broker(self, broker: int, row: BrokerRow) -> None:
        self.set_row(BROKER, str(broker), row.row())

    @property
    def cluster(self) -> ClusterRow:
        row = at_once(self.rows.get(CLUSTER, CLUSTER))
        assert row is not None
        return ClusterRow.of(row)

    def finalize(self, *passed_over: int) -> UpgradeView:
        return run(self.runner.run(finalize(CLUSTER_ID, passed_over)))


def test_the_level_goes_up_when_every_broker_reads_it() -> None:
    built = Cluster(b1=NEW, b2=NEW)
    view = built.finalize()

    assert built.cluster == replace(view.cluster, format_level=NEWEST_LEVEL)
    assert built.cluster.next_epoch == EPOCH
    assert run(built.runner.run(read_marked_level(1))) == NEWEST_LEVEL
    assert run(built.runner.run(read_feed())).since(0) is None, "watchers read everything"
    assert built.finalize().cluster.format_level == NEWEST_LEVEL, "repeatable"


def test_a_broker_that_does_not_say_its_levels_is_of_0_1_0() -> None:
    built = Cluster(b1=NEW, b2=OLD)
    with pytest.raises(Refused, match=r"broker 2 \(serving\) is of version 0\.1\.0 or older"):
        built.finalize()
    assert built.cluster.format_level == 1
    assert run(built.runner.run(read_marked_level(1))) == 1, "nothing was marked"


def test_one_that_has_ended_is_passed_over_only_if_it_is_named() -> None:
    for status in (BrokerStatus.STOPPED, BrokerStatus.FENCED):
        built = Cluster(b1=NEW, b2=replace(OLD, status=status))
        with pytest.raises(Refused, match=r"unregister broker 2.*--pass-over 2"):
            built.finalize()
        assert built.finalize(2).cluster.format_level == NEWEST_LEVEL


def test_one_that_serves_cannot_be_passed_over_nor_one_that_is_not_there() -> None:
    built = Cluster(b1=NEW, b2=OLD)
    with pytest.raises(Refused, match="broker 2"):
        built.finalize(2)
    with pytest.raises(Invalid, match="broker=7"):
        built.finalize(7)


def test_a_start_that_has_not_said_what_it_reads_is_waited_for() -> None:
    built = Cluster(b1=NEW)
    opened = ChainRow(broker=2, status=ChainStatus.OPEN)
    built.set_row(CHAIN, chain_sk(4), opened.row())
    with pytest.raises(Refused, match="broker 2 is starting, or died at it: chain=4"):
        built.finalize()
    built.set_row(CHAIN, chain_sk(4), replace(opened, status=ChainStatus.SEALED).row())
    assert built.finalize().cluster.format_level == NEWEST_LEVEL


def test_a_broker_that_draws_its_epoch_first_is_seen() -> None:
    """It reads level 1 only, and has read the row before: the raise finds the next epoch moved."""
    old = BrokerInfo(2, "h", 2, "", "l2", version="0.1.9", level_max=1)

    async def story(built: Cluster) -> None:
        steps = finalize(CLUSTER_ID)
        request = await stop_before(built.runner, steps, UpdateRow)
        await built.runner.run(begin(CLUSTER_ID, old))
        with pytest.raises(Refused, match=r"broker 2 \(serving\) is of version 0\.1\.9"):
            await built.runner.run(resume(steps, request))

    built = Cluster(b1=NEW)
    run(story(built))
    assert built.cluster.format_level == 1


def test_a_broker_that_draws_its_epoch_later_is_refused() -> None:
    """It read level 1, and the level was raised before it drew: it draws none."""

    async def story(built: Cluster) -> None:
        steps = open_chain(CLUSTER_ID, 2, lease_s=3.0, level_max=1)
        request = await stop_before(built.runner, steps, UpdateRow)
        found = await built.runner.run(read_view(CLUSTER_ID))
        assert not found.chains.keys() - {EPOCH}
        # As if the row of the start's chain were not there yet: it would be waited for.
        await built.runner.registry.delete_if(CHAIN, chain_sk(EPOCH))
        await built.runner.run(finalize(CLUSTER_ID))
        with pytest.raises(Refused, match="newer logstore: format_level=2 known=1"):
            await built.runner.run(resume(steps, request))

    built = Cluster(b1=NEW)
    run(story(built))
    assert (built.cluster.format_level, built.cluster.next_epoch) == (NEWEST_LEVEL, EPOCH)


def test_a_broker_that_reads_the_level_draws_again_after_it_was_raised() -> None:
    async def story(built: Cluster) -> int:
        steps = open_chain(CLUSTER_ID, 2, lease_s=3.0)
        request = await stop_before(built.runner, steps, UpdateRow)
        await built.runner.registry.delete_if(CHAIN, chain_sk(EPOCH))
        await built.runner.run(finalize(CLUSTER_ID))
        return (await built.runner.run(resume(steps, request))).epoch

    built = Cluster(b1=NEW)
    assert run(story(built)) == EPOCH + 1


def test_two_at_once_raise_it_once() -> None:
    async def both(built: Cluster) -> list[UpgradeView]:
        return await asyncio.gather(
            *(built.runner.run(finalize(CLUSTER_ID)) for _ in range(2)),
        )

    built = Cluster(b1=NEW)
    assert [view.cluster.format_level for view in run(both(built))] == [NEWEST_LEVEL] * 2
    assert built.cluster.format_level == NEWEST_LEVEL


@pytest.mark.parametrize(("kind", "level"), [(UpdateRow, 1), (PutRow, NEWEST_LEVEL)])
def test_killed_before_a_write_it_can_be_run_again(kind: type, level: int) -> None:
    built = Cluster(b1=NEW)
    run(stop_before(built.runner, finalize(CLUSTER_ID), kind))
    assert built.cluster.format_level == level
    assert run(built.runner.run(read_marked_level(1))) == NEWEST_LEVEL, "the mark comes first"

    assert built.finalize().cluster.format_level == NEWEST_LEVEL
    assert run(built.runner.run(read_feed())).since(0) is None


def test_one_of_0_1_0_that_started_in_the_last_moment_is_shown() -> None:
    """It compared the level before the raise, and draws without a look at it."""

    async def story(built: Cluster) -> UpgradeView:
        async with asyncio.TaskGroup() as tasks:
            finalizing = tasks.create_task(built.runner.run(finalize(CLUSTER_ID)))
            await built.clock.sleep_s(3)
            built.put_broker(2, OLD)
        return finalizing.result()

    view = run(story(Cluster(b1=NEW)))
    assert view.cluster.format_level == NEWEST_LEVEL
    assert [one.broker for one in find_hindrances(view, NEWEST_LEVEL)] == [2]


def test_keys_of_marks() -> None:
    assert level_of_key(level_key(12)) == 12
    assert level_of_key("levels/x") is None
    assert level_of_key("levels/") is None
