"""ACLs in registry and store: changed, and settled by their records. Steps.

A change of a shard creates the record of the next version, where its key is free, then the row
follows. So a record is a change that was made, also where its writer died before the row: the next
writer, and each start of a broker that has an authorizer, raises the row to the newest record
first. A registry put back from an older copy is raised in the same way, and brings back nothing
that was revoked since. The caller publishes a change (`ACLS_CHANGED`).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from logstore.errors import (
    ConditionFailed,
    Corrupt,
    Invalid,
    LogstoreError,
    NotFound,
    Retryable,
)
from logstore.formats.acl_record import (
    RECORD_BYTES_MAX,
    AclRecord,
    acl_record_key,
    acl_records_prefix,
    decode_acl_record,
    encode_acl_record,
)
from logstore.formats.acl_row import ACL, SHARDS, AclRow
from logstore.ports.registry import Comparison, Condition, RowAbsent
from logstore.protocol.chain.put import create_equal
from logstore.protocol.chain.walk import get_retrying, list_retrying
from logstore.protocol.steps import BackOff, Gather, GetRow, PutRow, Steps
from logstore.security.acls import Acl

ATTEMPTS_MAX = 20
PUT_ATTEMPTS_MAX = 10
ROW_BYTES_MAX = 128 * 1024
"""There are 16 rows: some 20,000 ACLs in all, a slice of work each (4 ms)."""


class AclChange(NamedTuple):
    """One shard before and after a change; the same version twice: nothing changed."""

    before: AclRow
    after: AclRow


class TooManyAcls(Invalid):
    """The row that an ACL belongs to is full."""


Decide = Callable[[frozenset[Acl]], frozenset[Acl]]


def change_acls(shard: str, decide: Decide) -> Steps[AclChange]:
    """Change the ACLs of one shard; nothing is written where nothing changes.

    Of two changes at once both are made, one after the other. Raises `TooManyAcls`, `Retryable`
    after losing many races, or as store and registry do: the change may be made then, by the next
    writer.
    """
    for attempt in range(1, ATTEMPTS_MAX + 1):
        known = yield from settle_shard(shard)
        before = frozenset(known.acls)
        after = decide(before)
        if after == before:
            return AclChange(known, known)
        wanted = AclRow(known.version + 1, tuple(sorted(after)))
        byte_count = len(str(wanted.row()["acls"]))
        if byte_count > ROW_BYTES_MAX and len(after) > len(before):
            raise TooManyAcls(
                f"too many ACLs: row=acl/{shard} bytes={byte_count} bytes_max={ROW_BYTES_MAX}; "
                "remove others, or name resources by prefixes"
            )
        if (yield from _put_record(AclRecord(shard, wanted))):
            yield from _raise_row(shard, known, wanted)
            return AclChange(known, wanted)
        yield BackOff(attempt)
    raise Retryable("too many concurrent changes of ACLs; try again")


def settle_acls() -> Steps[None]:
    """Raise every row to its newest record."""
    yield from _of_every_shard(settle_shard)


def newest_acls() -> Steps[dict[str, AclRow]]:
    """Returns what the newest record of each shard says, and writes nothing."""

    def newest(shard: str) -> Steps[AclRow]:
        return (yield from _newest(shard, (yield from _read_row(shard))))

    found = yield from _of_every_shard(newest)
    return {shard: row for shard, row in found.items() if row.version}


def _of_every_shard(steps: Callable[[str], Steps[AclRow]]) -> Steps[dict[str, AclRow]]:
    outcomes: Sequence[AclRow | LogstoreError] = yield Gather([steps(one) for one in SHARDS])
    found = {}
    for shard, outcome in zip(SHARDS, outcomes, strict=True):
        if isinstance(outcome, LogstoreError):
            raise outcome
        found[shard] = outcome
    return found


def settle_shard(shard: str) -> Steps[AclRow]:
    """Returns the content of the newest record of a shard, to which its row is raised."""
    known = yield from _read_row(shard)
    newest = yield from _newest(shard, known)
    if newest.version > known.version:
        yield from _raise_row(shard, known, newest)
    return newest


def _read_row(shard: str) -> Steps[AclRow]:
    row = yield GetRow(ACL, shard)
    return AclRow() if row is None else AclRow.of(row)


def _newest(shard: str, known: AclRow) -> Steps[AclRow]:
    """Returns the content of the newest record: one GET that finds none, mostly."""
    following = yield from _read_record(shard, known.version + 1)
    if following is None:
        return known
    keys = yield from list_retrying(acl_records_prefix(shard))
    last = max((int(key.rpartition("/")[2]) for key in keys), default=0)
    if last <= following.content.version:
        return following.content
    newest = yield from _read_record(shard, last)
    if newest is None:
        raise Corrupt(f"record of ACLs is listed and not there: shard={shard} version={last}")
    return newest.content


def _read_record(shard: str, version: int) -> Steps[AclRecord | None]:
    key = acl_record_key(shard, version)
    try:
        data = yield from get_retrying(key, 0, RECORD_BYTES_MAX)
    except NotFound:
        return None
    return decode_acl_record(key, data)


def _put_record(record: AclRecord) -> Steps[bool]:
    """False: another record has this version."""
    data = encode_acl_record(record)
    return (yield from create_equal(record.key, data, attempts_max=PUT_ATTEMPTS_MAX))


def _raise_row(shard: str, known: AclRow, newest: AclRow) -> Steps[None]:
    """Put the row of a newer record; where it has moved, another writer raised it."""
    while True:
        try:
            yield PutRow(ACL, shard, newest.row(), _as_it_was(known))
        except ConditionFailed:
            known = yield from _read_row(shard)
            if known.version >= newest.version:
                return
        else:
            return


def _as_it_was(known: AclRow) -> Sequence[Condition]:
    return [Comparison("version", "=", known.version)] if known.version else [RowAbsent()]
