"""ACLs in registry and store: no change is lost, and none that was made is undone."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from logstore.errors import LogstoreError, Unavailable
from logstore.formats.acl_record import acl_records_prefix
from logstore.formats.acl_row import ACL, ACLS_CHANGED, AclRow
from logstore.formats.feed_row import FeedRow
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.ports.clock import SystemClock
from logstore.protocol.access.acls import (
    ROW_BYTES_MAX,
    TooManyAcls,
    change_acls,
    newest_acls,
    settle_acls,
)
from logstore.protocol.rows.acls import AclShards, read_acls
from logstore.protocol.rows.view import read_update
from logstore.protocol.steps import Create, GetRow, PutRow, QueryRows
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.runners.step_runner import StepRunner, outcome_of
from logstore.security.acl_index import shard_of
from logstore.security.acls import Acl, Operation, PatternKind, Permission, ResourceKind
from logstore.testing.scripted import drive, resume, stop_before
from logstore.testing.simulated_rows import at_once
from logstore.testing.virtual_loop import VirtualClock

S = "3"


def acl(name: str, permission: Permission = Permission.ALLOW) -> Acl:
    return Acl(
        ResourceKind.TOPIC,
        name,
        PatternKind.LITERAL,
        "User:alice",
        "*",
        Operation.READ,
        permission,
    )


A, B, C = map(acl, "abc")


def plus(*acls: Acl) -> Callable[[frozenset[Acl]], frozenset[Acl]]:
    return lambda known: known | set(acls)


def minus(*acls: Acl) -> Callable[[frozenset[Acl]], frozenset[Acl]]:
    return lambda known: known - set(acls)


class Place:
    """A store, and a registry that can be exchanged for an older copy of itself."""

    def __init__(self) -> None:
        self.objects = MemoryObjects(SystemClock())
        self.rows = MemoryRows()
        self.rng = random.Random(0)
        self.clock = VirtualClock()

    @property
    def runner(self) -> StepRunner:
        registry = RetryingRegistry(
            self.rows, lambda: self.rng.randbytes(8).hex(), self.clock, self.rng
        )
        store = MemoryStore(self.objects)
        return StepRunner(store, registry, self.clock, self.rng, lambda: self.rng.randbytes(16))

    async def change(self, decide: Callable[[frozenset[Acl]], frozenset[Acl]]) -> set[Acl]:
        return set((await self.runner.run(change_acls(S, decide))).after.acls)

    async def shown(self) -> set[Acl]:
        """The rights of a broker that reads the registry now."""
        shards: AclShards = await self.runner.run(read_acls())
        return set(shards[S].group.acls) if S in shards else set()

    def copy_of_rows(self) -> MemoryRows:
        copy = MemoryRows()
        for (pk, sk), row in self.rows._rows.items():
            at_once(copy.put_if(pk, sk, row, [], "copied"))
        return copy

    @property
    def record_count(self) -> int:
        return len(list(self.objects.list(acl_records_prefix(S))))


async def test_a_change_has_its_record_before_its_row() -> None:
    place = Place()
    assert await place.change(plus(A)) == {A}
    put = await stop_before(place.runner, change_acls(S, plus(B)), PutRow)
    assert put.row == AclRow(2, (A, B)).row()
    assert place.record_count == 2
    assert await place.shown() == {A}


async def test_nothing_is_written_where_nothing_changes() -> None:
    place = Place()
    await place.change(plus(A))
    assert await place.change(plus(A)) == {A}
    assert await place.change(minus(B)) == {A}
    assert place.record_count == 1


@pytest.mark.parametrize("kind", [Create, PutRow])
async def test_of_two_changes_at_once_both_are_made(kind: type[Any]) -> None:
    """One is stopped before its record, or before its row, while the other is made."""

    place = Place()
    await place.change(plus(A))
    steps = change_acls(S, plus(B))
    request = await stop_before(place.runner, steps, kind)
    assert await place.change(minus(A)) in (set(), {B})
    outcome = await outcome_of(place.runner.run(resume(steps, request)))
    assert not isinstance(outcome, LogstoreError), outcome
    assert await place.shown() == {B}


async def test_a_writer_that_died_between_record_and_row_has_made_its_change() -> None:
    place = Place()
    await place.change(plus(A, B))
    await stop_before(place.runner, change_acls(S, minus(A)), PutRow)
    assert await place.shown() == {A, B}, "it was never answered"
    await place.runner.run(settle_acls())
    assert await place.shown() == {B}
    await stop_before(place.runner, change_acls(S, minus(B)), PutRow)
    assert await place.change(plus(C)) == {C}, "the next writer goes on from there"


async def test_a_registry_of_an_older_copy_brings_nothing_back_that_was_revoked() -> None:
    for settles in (True, False):
        place = Place()
        await place.change(plus(A, B))
        older = place.copy_of_rows()
        await place.change(minus(A))
        await place.change(plus(C))
        await place.change(minus(C))
        place.rows = older
        if settles:
            assert (await place.runner.run(newest_acls()))[S] == AclRow(4, (B,))
            assert await place.shown() == {A, B}, "to look writes nothing"
            await place.runner.run(settle_acls())
        else:
            await place.change(plus(B))
        assert await place.shown() == {B}


async def test_a_lost_registry_gets_its_acls_back() -> None:
    place = Place()
    await place.change(plus(A, B))
    await place.change(minus(A))
    place.rows = MemoryRows()
    await place.runner.run(settle_acls())
    assert await place.shown() == {B}


async def test_a_start_that_cannot_read_the_records_has_no_rights() -> None:
    place = Place()
    await place.change(plus(A))
    runner = place.runner

    class Away(MemoryStore):
        async def get_range(self, key: str, start: int, length: int) -> bytes:
            raise Unavailable("away")

    away = StepRunner(Away(place.objects), runner.registry, place.clock, place.rng, lambda: b"")
    with pytest.raises(Unavailable):
        await away.run(settle_acls())


async def test_a_row_takes_no_more_than_fits_and_gives_back_what_is_too_much() -> None:
    place = Place()
    many = [acl(f"{number:0240}") for number in range(ROW_BYTES_MAX // 310)]
    await place.change(plus(*many))
    with pytest.raises(TooManyAcls, match=r"too many ACLs: row=acl/3 .* remove others"):
        await place.change(plus(*(acl(f"x{number:0240}") for number in range(100))))
    assert await place.change(minus(*many[1:])) == {many[0]}


def test_a_change_in_the_feed_has_them_read() -> None:
    feed = FeedRow(version=8, changes=(ACLS_CHANGED,))
    update, made = drive(read_update(7), [feed.row(), [(S, AclRow(2, (A,)).row())], []])

    assert update is not None
    assert update.acls is not None
    assert update.acls[S].version == 2
    assert (update.topics, update.partitions, update.quotas) == ({}, {}, None)
    assert made[:2] == [GetRow("change", "feed"), QueryRows(ACL)]


def test_acls_of_one_principal_and_pattern_share_a_shard() -> None:
    assert shard_of(A) == shard_of(A._replace(permission=Permission.DENY, host="10.0.0.1"))


async def test_two_administrators_at_once_lose_nothing() -> None:
    place = Place()
    names = [f"t{number}" for number in range(12)]
    await asyncio.gather(*(place.change(plus(acl(name))) for name in names))
    assert await place.shown() == {acl(name) for name in names}
    await asyncio.gather(*(place.change(minus(acl(name))) for name in names))
    assert await place.shown() == set()
