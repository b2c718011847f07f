"""Rights of clients. This version allows everything; every handler asks all the same.

Operations and kinds of resource are Kafka's (`org.apache.kafka.common.acl`). Each handler
says how a refusal looks on the wire; denied topics are answered as Kafka answers them, so that a
client without rights does not learn whether a topic exists.
"""

from enum import IntEnum
from typing import NamedTuple, Protocol


class Operation(IntEnum):
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class ResourceKind(IntEnum):
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Resource(NamedTuple):
    kind: ResourceKind
    name: str


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

CLUSTER = Resource(ResourceKind.CLUSTER, "kafka-cluster")
ANONYMOUS = "User:ANONYMOUS"


class Rights(Protocol):
    def authorize(self, principal: str, operation: Operation, resource: Resource) -> bool: ...


class Authorizer(Rights, Protocol):
    version: int
    """Another one after each change of rights: sessions look at all their partitions again."""


class AllowAll:
    version = 0

    def authorize(self, principal: str, operation: Operation, resource: Resource) -> bool:
        return True
