"""Which ACLs a filter finds, as Kafka's `AclBindingFilter` does. Pure."""

from typing import NamedTuple

from logstore.security.acls import (
    WILDCARD,
    Acl,
    Operation,
    PatternKind,
    Permission,
    ResourceKind,
)

ANY, MATCH = 1, 2
"""Numbers of a filter alone. MATCH: every pattern that holds for the name."""


class AclFilter(NamedTuple):
    """None: whatever it is."""

    kind: ResourceKind | None = None
    name: str | None = None
    pattern: PatternKind | None = None
    is_match: bool = False
    """Whether `name` is of a resource, and every pattern counts that holds for it."""
    principal: str | None = None
    host: str | None = None
    operation: Operation | None = None
    permission: Permission | None = None

    def matches(self, acl: Acl) -> bool:
        return (
            self.kind in (None, acl.kind)
            and self.pattern in (None, acl.pattern)
            and self._is_named(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (None, acl.operation)
            and self.permission in (None, acl.permission)
        )

    def _is_named(self, acl: Acl) -> bool:
        if self.name is None:
            return True
        if not self.is_match:
            return self.name == acl.name
        if acl.pattern is PatternKind.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name in (self.name, WILDCARD)
