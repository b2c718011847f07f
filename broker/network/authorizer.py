"""Rights of clients, as handlers ask for them. By default everything is allowed; all are asked.

Operations and kinds of resource are Kafka's (`logstore.security.acls`). Each handler
says how a refusal looks on the wire; denied topics are answered as Kafka answers them, so that a
client without rights does not learn whether a topic exists.
"""

from typing import Protocol

from logstore.security.acls import CLUSTER, Operation, Resource, ResourceKind

__all__ = [
    "ANONYMOUS",
    "CLUSTER",
    "CLUSTER_OPERATIONS",
    "TOPIC_OPERATIONS",
    "AllowAll",
    "Authorizer",
    "Operation",
    "Resource",
    "ResourceKind",
    "Rights",
]

TOPIC_OPERATIONS = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
CLUSTER_OPERATIONS = (
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)
"""Operations that the fields "authorized operations" of Metadata cover (KIP-430)."""

ANONYMOUS = "User:ANONYMOUS"


class Rights(Protocol):
    def authorize(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource: Resource,
        groups: tuple[str, ...] = (),
        /,
    ) -> bool:
        """Returns whether a client may do that: a user, with the groups that its login named."""
        ...


class Authorizer(Rights, Protocol):
    @property
    def version(self) -> int:
        """Another one after each change of rights: sessions look at all their partitions again."""
        ...

    @property
    def has_acls(self) -> bool:
        """Whether there are ACLs, which clients may see and change."""
        ...

    def authorize_on_any(
        self,
        principal: str,
        host: str,
        operation: Operation,
        kind: ResourceKind,
        groups: tuple[str, ...] = (),
        /,
    ) -> bool:
        """Returns whether it may do that with some resource of the kind, there or not yet."""
        ...


class AllowAll:
    version = 0
    has_acls = False

    def authorize(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource: Resource,
        groups: tuple[str, ...] = (),
        /,
    ) -> bool:
        return True

    def authorize_on_any(
        self,
        principal: str,
        host: str,
        operation: Operation,
        kind: ResourceKind,
        groups: tuple[str, ...] = (),
        /,
    ) -> bool:
        return True
