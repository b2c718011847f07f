"""A restored registry has a format level that is no lower than any form that is stored."""

from collections.abc import Awaitable, Callable

import pytest

from logstore.errors import Refused
from logstore.formats.cluster_row import CLUSTER, ClusterRow
from logstore.formats.keys import CLUSTER_KEY, level_key
from logstore.formats.levels import NEWEST_LEVEL
from logstore.formats.partition_state import Sink
from logstore.protocol.chain.identity import Identity, encode_identity
from logstore.protocol.leading.upgrade import finalize
from logstore.registry.memory import MemoryRows
from logstore.testing.simulated_rows import at_once
from logstore.testing.virtual_loop import EPOCH_MS, run
from tests.logstore.restore.test_restore import cluster_id, copy_of, put_back, rebuild, write
from tests.logstore.written import WrittenLog

Story = Callable[[WrittenLog], Awaitable[None]]


def level(written: WrittenLog) -> int:
    row = at_once(written.rows.get(CLUSTER, CLUSTER))
    assert row is not None
    return ClusterRow.of(row).format_level


def play(story: Story) -> None:
    """A log that the release before has made, and one broker of this one has written."""

    async def scenario() -> None:
        written = WrittenLog(checkpoint_segments=3)
        async with written.life() as log:
            await log.create_topic("orders", 1, {})
            await write(written, log, "orders", 0, 5)
        cluster = cluster_id(written)
        written.objects.delete(CLUSTER_KEY)
        written.objects.create(CLUSTER_KEY, [encode_identity(Identity(cluster, "memory", 1))])
        at_once(written.rows.update_if(CLUSTER, CLUSTER, {"format_level": 1}, [], "older"))
        await story(written)

    run(scenario())


def test_a_log_of_an_older_level_stays_one() -> None:
    async def story(written: WrittenLog) -> None:
        cluster = cluster_id(written)
        put_back(written, MemoryRows())
        await rebuild(written, cluster)
        assert level(written) == 1

    play(story)


def test_a_level_that_was_finalized_survives_a_lost_registry() -> None:
    async def story(written: WrittenLog) -> None:
        cluster = cluster_id(written)
        await written.runner.run(finalize(cluster))
        put_back(written, MemoryRows())
        await rebuild(written, cluster)
        assert level(written) == NEWEST_LEVEL

    play(story)


def test_and_a_registry_of_before_it_was_finalized() -> None:
    async def story(written: WrittenLog) -> None:
        copy, cluster = copy_of(written.rows), cluster_id(written)
        await written.runner.run(finalize(cluster))
        put_back(written, copy)
        assert level(written) == 1
        await rebuild(written, cluster)
        assert level(written) == NEWEST_LEVEL

    play(story)


async def test_a_new_log_is_restored_with_the_level_of_its_creation() -> None:
    written = WrittenLog(checkpoint_segments=3)
    async with written.life() as log:
        await log.create_topic("orders", 1, {})
    cluster = cluster_id(written)
    put_back(written, MemoryRows())
    await rebuild(written, cluster)
    assert level(written) == NEWEST_LEVEL


def test_a_form_that_a_chain_holds_counts_whatever_was_marked() -> None:
    """States that know a sink are of level 2."""

    async def story(written: WrittenLog) -> None:
        cluster = cluster_id(written)
        async with written.life() as log:
            leader = log.topics["orders"].leaders[0]
            sink = Sink(1, 1, 1, EPOCH_MS, 0, 1)
            leader.epoch_range.state.sinks[b"s" * 16] = sink
            await write(written, log, "orders", 0, 1)
        put_back(written, MemoryRows())
        await rebuild(written, cluster)
        assert level(written) == NEWEST_LEVEL

    play(story)


def test_marks_of_a_newer_version_are_refused() -> None:
    async def story(written: WrittenLog) -> None:
        written.objects.create(level_key(NEWEST_LEVEL + 1), [b"{}"])
        with pytest.raises(Refused, match="newer logstore"):
            await rebuild(written, cluster_id(written))

    play(story)
