"""The authorizer that goes by ACLs, as this broker has read them. Decisions are kept.

    follow(shards)     take ACLs as they were read: from the next request on they count
    authorize(…)       by ACLs; what was decided for a client and a resource is kept until then

Super users may do everything. A broker, which logs in by a secret of the cluster, may act as one
and do nothing else. While the registry is away the ACLs last read go on to count.
"""

from broker.network.authorizer import CLUSTER, Operation, Resource, ResourceKind
from logstore.protocol.rows.acls import AclShards
from logstore.security.acl_index import ALL_BITS, AclIndex

KEPT_MAX = 50_000
"""Decisions that are kept; beyond that all are made again."""
KEPT_NAME_MAX = 300
"""Characters of a resource's name: clients name groups of any length."""
BROKER_KIND = "Broker:"

_AS_A_BROKER = 1 << Operation.CLUSTER_ACTION

Groups = tuple[str, ...]


class StandardAuthorizer:
    has_acls = True

    def __init__(
        self, super_users: frozenset[str] = frozenset(), *, is_open_without_acl: bool = False
    ) -> None:
        self.version = 0
        self._super_users = super_users
        self._index = AclIndex(is_open_without_acl=is_open_without_acl)
        self._shards: AclShards = {}
        self._kept: dict[tuple[str, str, Groups], dict[Resource, int]] = {}
        self._kept_count = 0
        self._kept_on_any: dict[tuple[str, str, Groups, Operation, ResourceKind], bool] = {}

    def follow(self, shards: AclShards) -> None:
        """Take what was read; shards that are known are passed by."""
        changed = {
            name: shard for name, shard in shards.items() if self._shards.get(name) is not shard
        }
        if not changed:
            return
        for name, shard in changed.items():
            self._index.replace(name, shard.group)
        self._shards = dict(shards)
        self.forget()
        self.version += 1

    def forget(self) -> None:
        """Decide again what was decided."""
        self._kept.clear()
        self._kept_on_any.clear()
        self._kept_count = 0

    def authorize(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource: Resource,
        groups: Groups = (),
        /,
    ) -> bool:
        kept = self._kept.get((principal, host, groups))
        bits = None if kept is None else kept.get(resource)
        if bits is None:
            bits = self._decide(principal, host, resource, groups)
        return bits >> operation & 1 == 1

    def _decide(self, principal: str, host: str, resource: Resource, groups: Groups) -> int:
        if not self._super_users.isdisjoint((principal, *groups)):
            bits = ALL_BITS
        elif principal.startswith(BROKER_KIND):
            bits = _AS_A_BROKER if resource == CLUSTER else 0
        else:
            bits = self._index.allowed_bits((principal, *groups), host, *resource)
        if len(resource.name) <= KEPT_NAME_MAX:
            self._count()
            self._kept.setdefault((principal, host, groups), {})[resource] = bits
        return bits

    def authorize_on_any(
        self,
        principal: str,
        host: str,
        operation: Operation,
        kind: ResourceKind,
        groups: Groups = (),
        /,
    ) -> bool:
        key = (principal, host, groups, operation, kind)
        may = self._kept_on_any.get(key)
        if may is None:
            self._count()
            may = self._kept_on_any[key] = self._may_on_any(
                principal, host, operation, kind, groups
            )
        return may

    def _may_on_any(
        self, principal: str, host: str, operation: Operation, kind: ResourceKind, groups: Groups
    ) -> bool:
        if not self._super_users.isdisjoint((principal, *groups)):
            return True
        if principal.startswith(BROKER_KIND):
            return False
        return self._index.allows_on_any((principal, *groups), host, operation, kind)

    def _count(self) -> None:
        if self._kept_count >= KEPT_MAX:
            self.forget()
        self._kept_count += 1
