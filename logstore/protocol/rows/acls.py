"""ACLs as the registry's rows have them: read by brokers. `protocol.access.acls` changes them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from logstore.formats.acl_row import ACL, AclRow
from logstore.ports.registry import Row
from logstore.protocol.steps import QueryRows, Steps, sliced
from logstore.security.acl_index import AclGroup, group
from logstore.slices import Slices


class AclShard(NamedTuple):
    version: int
    group: AclGroup


AclShards = Mapping[str, AclShard]


def read_acls() -> Steps[AclShards]:
    rows = yield QueryRows(ACL)
    return (yield from sliced(_grouped_in_slices(rows)))


def _grouped_in_slices(rows: Sequence[tuple[str, Row]]) -> Slices[AclShards]:
    shards: dict[str, AclShard] = {}
    for sk, row in rows:
        known = AclRow.of(row)
        yield
        shards[sk] = AclShard(known.version, group(known.acls))
        yield
    return shards
