"""ACLs: one says what one principal may, or may not, do with the resources of one pattern. Pure.

Kinds, operations and permissions have Kafka's numbers (`org.apache.kafka.common.acl` and
`.resource`). A pattern is the name of a resource, `*` for all of its kind, or, prefixed, the
beginning of names. A host is an address, or `*`; `User:*` is every client.
"""

from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

WILDCARD = "*"
EVERY_USER = "User:*"


class Operation(IntEnum):
    __hash__ = int.__hash__  # an Enum's own is Python, and decisions are kept by these

    ALL = 2
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
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceKind(IntEnum):
    __hash__ = int.__hash__

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternKind(IntEnum):
    __hash__ = int.__hash__

    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    __hash__ = int.__hash__

    DENY = 2
    ALLOW = 3


class Resource(NamedTuple):
    kind: ResourceKind
    name: str


CLUSTER = Resource(ResourceKind.CLUSTER, "kafka-cluster")


class Acl(NamedTuple):
    kind: ResourceKind
    name: str
    pattern: PatternKind
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        return (
            f"{self.permission.name} {self.principal} {self.operation.name} on {self.kind.name} "
            f"{self.pattern.name} {self.name!r} from {self.host}"
        )


def is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=4096)
def plain_host(text: str) -> str:
    """Returns an address as Python spells it; a text that is none stays as it is.

    Java spells `::1` as `0:0:0:0:0:0:0:1`, and an IPv4 address within IPv6 as the former alone.
    """
    try:
        address = ip_address(text)
    except ValueError:
        return text
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
