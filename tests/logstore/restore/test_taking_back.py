"""What was deleted within a day and is missing comes back before a registry is rebuilt."""

from collections.abc import Sequence

import pytest

from logstore.errors import Corrupt, LogstoreError, Refused
from logstore.formats.keys import CHAINS, chain_prefix, checkpoints_prefix, segment_key
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms.names import log_prefix, table_key
from logstore.objects.memory import MemoryObjects
from logstore.registry.memory import MemoryRows
from logstore.restore.run import Restored, restore
from logstore.restore.taking_back import deleted_below, take_back
from tests.logstore.restore.test_restore import all_rows, cluster_id, put_back
from tests.logstore.restore.test_tables import (
    RECORDS,
    TablesAtOnce,
    TrimmedLog,
    log_start_of,
    play,
)


class TrashAtOnce:
    """A trash in memory, asked without a thread."""

    def __init__(self, objects: MemoryObjects) -> None:
        self._objects = objects

    async def count(self, prefixes: Sequence[str]) -> int:
        return deleted_below(self._objects, prefixes)

    async def take_back(self, prefixes: Sequence[str]) -> Sequence[str]:
        return take_back(self._objects, prefixes)


async def rebuild(written: TrimmedLog, cluster: bytes, *, dry_run: bool = False) -> Restored:
    return await restore(
        written.runner,
        cluster,
        TablesAtOnce(written),
        dry_run=dry_run,
        advance=lambda count: None,
        trash=TrashAtOnce(written.objects),
    )


def keys_below(written: TrimmedLog, *prefixes: str) -> list[str]:
    return [info.key for prefix in prefixes for info in written.objects.list(prefix)]


def delete(written: TrimmedLog, keys: Sequence[str]) -> None:
    for key in keys:
        written.objects.delete(key)


async def check_all_is_there(written: TrimmedLog, key: TopicPartition) -> None:
    assert await log_start_of(written, key) == 0
    async with written.life() as log:
        leader = log.topics["orders"].leaders[0]
        assert (leader.log_start, leader.high_watermark) == (0, RECORDS)


@pytest.mark.parametrize(
    "lost", [[segment_key(1, 0)], [segment_key(1, 5)], [segment_key(1, 5), segment_key(1, 9)]]
)
@pytest.mark.parametrize("registry", ["lost", "there"])
def test_a_piece_of_a_chain_comes_back(lost: Sequence[str], registry: str) -> None:
    async def story(written: TrimmedLog, key: TopicPartition) -> None:
        cluster = cluster_id(written)
        if registry == "lost":
            put_back(written, MemoryRows())
        delete(written, lost)
        done = await rebuild(written, cluster)

        assert done.taken_back == list(lost)
        assert (await rebuild(written, cluster)).taken_back == []
        await check_all_is_there(written, key)

    play(story, moved=0)


def test_a_checkpoint_comes_back() -> None:
    async def story(written: TrimmedLog, key: TopicPartition) -> None:
        cluster = cluster_id(written)
        lost = keys_below(written, checkpoints_prefix(1))[1:2]
        delete(written, lost)
        assert (await rebuild(written, cluster)).taken_back == lost
        await check_all_is_there(written, key)

    play(story, moved=0)


@pytest.mark.parametrize("registry", ["lost", "there"])
def test_a_chain_of_which_nothing_is_left_comes_back(registry: str) -> None:
    async def story(written: TrimmedLog, key: TopicPartition) -> None:
        cluster = cluster_id(written)
        async with written.life():
            pass  # a second chain; a lost registry knows of the first by it
        if registry == "lost":
            put_back(written, MemoryRows())
        lost = keys_below(written, chain_prefix(1), checkpoints_prefix(1))
        delete(written, lost)
        assert sorted((await rebuild(written, cluster)).taken_back) == sorted(lost)
        await check_all_is_there(written, key)

    play(story, moved=0)


def test_the_end_of_a_chain_that_the_registry_knows_comes_back() -> None:
    async def story(written: TrimmedLog, key: TopicPartition) -> None:
        cluster = cluster_id(written)
        chain = keys_below(written, chain_prefix(1))
        lost = [*chain[6:], *keys_below(written, checkpoints_prefix(1))]
        delete(written, lost)
        with pytest.raises(LogstoreError):
            await restore(
                written.runner,
                cluster,
                TablesAtOnce(written),
                dry_run=True,
                advance=lambda count: None,
            )
        assert sorted((await rebuild(written, cluster)).taken_back) == sorted(lost)
        await check_all_is_there(written, key)

    play(story, moved=0)


@pytest.mark.parametrize("what", ["table", "log", "files", "one entry"])
@pytest.mark.parametrize("registry", ["lost", "there"])
def test_a_table_comes_back(what: str, registry: str) -> None:
    async def story(written: TrimmedLog, key: TopicPartition) -> None:
        cluster = cluster_id(written)
        if registry == "lost":
            put_back(written, MemoryRows())
        table = table_key(key.topic_id)
        lost = {
            "table": keys_below(written, f"{table}/"),
            "log": keys_below(written, log_prefix(key.topic_id)),
            "files": keys_below(written, f"{table}/partition="),
            "one entry": keys_below(written, log_prefix(key.topic_id))[:1],
        }[what]
        assert lost
        delete(written, lost)
        assert sorted((await rebuild(written, cluster)).taken_back) == sorted(lost)
        await check_all_is_there(written, key)

    play(story, moved=12)


def test_a_dry_run_takes_nothing_back_and_says_so() -> None:
    async def story(written: TrimmedLog, key: TopicPartition) -> None:
        cluster = cluster_id(written)
        put_back(written, MemoryRows())
        delete(written, [segment_key(1, 5)])
        before = keys_below(written, "")
        with pytest.raises(Refused, match=r"count=1; without --dry-run they are taken back"):
            await rebuild(written, cluster, dry_run=True)
        assert keys_below(written, "") == before
        assert all_rows(written.rows) == {}

    play(story, moved=0)


def test_what_is_gone_for_good_is_reported_as_before() -> None:
    async def story(written: TrimmedLog, key: TopicPartition) -> None:
        cluster = cluster_id(written)
        put_back(written, MemoryRows())
        delete(written, [segment_key(1, 5)])
        written.objects._trash.clear()
        with pytest.raises(Corrupt, match="put the files back from a copy"):
            await rebuild(written, cluster)
        assert all_rows(written.rows) == {}

    play(story, moved=0)


def test_nothing_comes_back_that_is_not_missing() -> None:
    async def story(written: TrimmedLog, key: TopicPartition) -> None:
        cluster = cluster_id(written)
        put_back(written, MemoryRows())
        trimmed = [one.key for one in written.objects.deleted(CHAINS)]
        assert trimmed
        assert (await rebuild(written, cluster)).taken_back == []
        assert not set(trimmed) & set(keys_below(written, CHAINS))

    play(story, moved=12)
