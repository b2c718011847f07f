"""Changes of ACLs by a request: row by row, then every broker is asked to go by them.

When the answer leaves, this broker goes by the new ones; the others do within a second.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from broker.access.audit import note_acls_changed
from broker.answers.broker import Broker
from broker.network.call import Call
from logstore.errors import LogstoreError
from logstore.formats.acl_row import ACLS_CHANGED
from logstore.protocol.access.acls import AclChange, Decide, change_acls
from logstore.security.acls import Acl

APPLIED_S_MAX = 5.0
"""How long an answer waits until this broker has applied the change."""


class AclsChanged(NamedTuple):
    """By shard: the outcome of its change."""

    made: Mapping[str, AclChange]
    failed: Mapping[str, LogstoreError]


async def change_shards(broker: Broker, call: Call, changes: Mapping[str, Decide]) -> AclsChanged:
    """Change these shards, one after the other: each has its own outcome."""
    made: dict[str, AclChange] = {}
    failed: dict[str, LogstoreError] = {}
    async for shard, decide in call.each(changes.items()):
        try:
            made[shard] = await broker.log.runner.run(change_acls(shard, decide))
        except LogstoreError as error:
            failed[shard] = error
    if any(change.after != change.before for change in made.values()):
        await broker.log.publish([ACLS_CHANGED], is_urgent=True)
        await broker.topic_watch.until(lambda: _is_applied(broker, made), APPLIED_S_MAX)
    return AclsChanged(made, failed)


def _is_applied(broker: Broker, made: Mapping[str, AclChange]) -> bool:
    shards = broker.log.rows.acls
    return all(
        not change.after.version
        or (shard in shards and shards[shard].version >= change.after.version)
        for shard, change in made.items()
    )


def added(change: AclChange) -> list[Acl]:
    return sorted(set(change.after.acls) - set(change.before.acls))


def removed(change: AclChange) -> list[Acl]:
    return sorted(set(change.before.acls) - set(change.after.acls))


def audit_acls(
    broker: Broker, call: Call, *, made: Sequence[Acl] = (), deleted: Sequence[Acl] = ()
) -> None:
    note_acls_changed(
        now_ms=broker.clock.now_ms(),
        principal=call.principal,
        peer=call.connection.peer,
        api=call.api.name,
        made=made,
        deleted=deleted,
    )
