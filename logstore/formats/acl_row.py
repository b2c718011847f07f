"""Rows of ACLs, sixteen of them, each with the ACLs of one shard. Pure.

    acl / <0-f>     version, acls: [["User:alice","TOPIC","LITERAL","orders","*","READ","ALLOW"],…]

Of each ACL: principal, kind of resource, kind of pattern, pattern, host, operation, permission, in
Kafka's words. They are sorted, so that equal rows have equal bytes. A row is never removed; its
version goes up with each change, and each version has a record in the store first
(`acl_record`).
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated

from logstore.formats.feed_row import FeedChange
from logstore.formats.row_fields import ID_BYTES, Form, decode_row, encode_row
from logstore.ports.registry import Row
from logstore.security.acls import Acl, Operation, PatternKind, Permission, ResourceKind

ACL = "acl"
SHARDS = "0123456789abcdef"

ACLS_CHANGED = FeedChange("acl/", bytes(ID_BYTES))
"""In the change feed: some row of ACLs has changed. As `quota_row.QUOTAS_CHANGED`."""

Words = list[str]


def words_of(acls: Collection[Acl]) -> list[Words]:
    """Returns the stored form of ACLs, in order."""
    return [
        [
            acl.principal,
            acl.kind.name,
            acl.pattern.name,
            acl.name,
            acl.host,
            acl.operation.name,
            acl.permission.name,
        ]
        for acl in sorted(acls)
    ]


def acls_of(stored: Collection[Words]) -> tuple[Acl, ...]:
    """Raises `KeyError`, `TypeError` or `ValueError` for what is none."""
    return tuple(
        Acl(
            ResourceKind[kind],
            str(name),
            PatternKind[pattern],
            str(principal),
            str(host),
            Operation[operation],
            Permission[permission],
        )
        for principal, kind, pattern, name, host, operation, permission in stored
    )


def _pack(acls: Collection[Acl]) -> str:
    return json.dumps(words_of(acls), separators=(",", ":"))


def _unpack(text: str) -> tuple[Acl, ...]:
    try:
        return acls_of(json.loads(text))
    except KeyError as error:
        raise ValueError(str(error)) from error


_ACLS = Form(str, _pack, _unpack)


@dataclass(frozen=True, slots=True)
class AclRow:
    version: int = 0
    """Goes up with every change; 0: there is no row yet."""
    acls: Annotated[tuple[Acl, ...], _ACLS] = ()

    def row(self) -> Row:
        return encode_row(self)

    @staticmethod
    def of(row: Row) -> "AclRow":
        return decode_row(AclRow, row)
