"""Decisions about what a client may do, by all ACLs there are, without looking at each one. Pure.

The rules are those of Kafka's `StandardAuthorizer`: of the ACLs for the resource, the client's
principals and its host, one that denies prevails over all that allow; without one that allows it is
denied, unless the resource has no ACL at all and `is_open_without_acl`. To allow READ, WRITE,
DELETE or ALTER allows DESCRIBE, to allow ALTER_CONFIGS allows DESCRIBE_CONFIGS; to deny them denies
nothing else.

    principal, kind → Patterns:  literal   {name   → {host → (allowed bits, denied bits)}}
                                 prefixed  {prefix → …}, looked up once for each length there is

ACLs come in shards, which are replaced one by one: those of one principal, kind and pattern lie in
one shard (`shard_of`), so that a shard replaces whole entries.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import NamedTuple

from logstore.security.acls import (
    EVERY_USER,
    WILDCARD,
    Acl,
    Operation,
    PatternKind,
    Permission,
    ResourceKind,
    plain_host,
)

ALL_BITS = (1 << 16) - 1
_IMPLIED = {
    **dict.fromkeys(
        (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
        1 << Operation.DESCRIBE,
    ),
    Operation.ALTER_CONFIGS: 1 << Operation.DESCRIBE_CONFIGS,
}

Hosts = Mapping[str, tuple[int, int]]
"""By host, or `*`: bits of the operations that are allowed, and that are denied."""


class AclEntry(NamedTuple):
    """Where the ACLs of one principal for one pattern lie."""

    principal: str
    kind: ResourceKind
    pattern: PatternKind
    name: str


class AclGroup(NamedTuple):
    """The ACLs of one shard, made ready to be looked up."""

    acls: Collection[Acl]
    entries: Mapping[AclEntry, Hosts]


def shard_of(acl: Acl) -> str:
    """Returns the shard that an ACL lies in: one hexadecimal digit."""
    text = "\0".join((acl.principal, str(int(acl.kind)), str(int(acl.pattern)), acl.name))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=1).hexdigest()[0]


def group(acls: Collection[Acl]) -> AclGroup:
    """Returns the ACLs of one shard, some two microseconds each."""
    entries: dict[AclEntry, dict[str, tuple[int, int]]] = {}
    for acl in acls:
        hosts = entries.setdefault(AclEntry(acl.principal, acl.kind, acl.pattern, acl.name), {})
        host = plain_host(acl.host)
        allowed, denied = hosts.get(host, (0, 0))
        bits = ALL_BITS if acl.operation is Operation.ALL else 1 << acl.operation
        if acl.permission is Permission.DENY:
            hosts[host] = allowed, denied | bits
        else:
            hosts[host] = allowed | bits | _IMPLIED.get(acl.operation, 0), denied
    return AclGroup(acls, entries)


class _Patterns:
    """Of one principal and kind; `lengths` are those of the prefixes."""

    __slots__ = ("lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, Hosts] = {}
        self.prefixed: dict[str, Hosts] = {}
        self.lengths: Counter[int] = Counter()

    def put(self, entry: AclEntry, hosts: Hosts) -> None:
        if entry.pattern is PatternKind.LITERAL:
            self.literal[entry.name] = hosts
            return
        if entry.name not in self.prefixed:
            self.lengths[len(entry.name)] += 1
        self.prefixed[entry.name] = hosts

    def remove(self, entry: AclEntry) -> None:
        if entry.pattern is PatternKind.LITERAL:
            self.literal.pop(entry.name, None)
        elif self.prefixed.pop(entry.name, None) is not None:
            self.lengths[len(entry.name)] -= 1
            if not self.lengths[len(entry.name)]:
                del self.lengths[len(entry.name)]

    def of(self, name: str) -> Iterator[Hosts]:
        """Yields those of each pattern that holds for the resource `name`."""
        for literal in (name, WILDCARD) if name != WILDCARD else (WILDCARD,):
            if (hosts := self.literal.get(literal)) is not None:
                yield hosts
        for length in self.lengths:
            if length <= len(name) and (hosts := self.prefixed.get(name[:length])) is not None:
                yield hosts


class AclIndex:
    def __init__(self, *, is_open_without_acl: bool = False) -> None:
        self._is_open_without_acl = is_open_without_acl
        self._shards: dict[str, AclGroup] = {}
        self._patterns: dict[tuple[str, ResourceKind], _Patterns] = {}
        self._every: dict[ResourceKind, _Patterns] = {}
        """Patterns of all principals."""
        self._counts: Counter[tuple[ResourceKind, PatternKind, str]] = Counter()
        """How many entries each of them has."""

    def replace(self, shard: str, new: AclGroup) -> None:
        """Put `new` in the place of all ACLs of this shard."""
        known = self._shards.get(shard)
        for entry in () if known is None else known.entries.keys() - new.entries.keys():
            self._remove(entry)
        for entry, hosts in new.entries.items():
            if known is None or entry not in known.entries:
                self._counts[entry[1:]] += 1
                self._every.setdefault(entry.kind, _Patterns()).put(entry, {})
            key = entry.principal, entry.kind
            patterns = self._patterns.get(key)
            if patterns is None:
                patterns = self._patterns[key] = _Patterns()
            patterns.put(entry, hosts)
        self._shards[shard] = new

    def _remove(self, entry: AclEntry) -> None:
        self._counts[entry[1:]] -= 1
        if not self._counts[entry[1:]]:
            del self._counts[entry[1:]]
            self._every[entry.kind].remove(entry)
        patterns = self._patterns[entry.principal, entry.kind]
        patterns.remove(entry)
        if not patterns.literal and not patterns.prefixed:
            del self._patterns[entry.principal, entry.kind]

    @property
    def acls(self) -> Iterator[Acl]:
        for shard in self._shards.values():
            yield from shard.acls

    def __len__(self) -> int:
        return sum(len(shard.acls) for shard in self._shards.values())

    def allowed_bits(
        self, principals: Iterable[str], host: str, kind: ResourceKind, name: str
    ) -> int:
        """Returns which operations a client may do with a resource: bit n for that of number n.

        `principals` are the client's own and those of its groups.
        """
        host = plain_host(host)
        allowed = denied = 0
        for principal in (*principals, EVERY_USER):
            patterns = self._patterns.get((principal, kind))
            if patterns is None:
                continue
            for hosts in patterns.of(name):
                for one in (WILDCARD, host):
                    may, may_not = hosts.get(one, (0, 0))
                    allowed, denied = allowed | may, denied | may_not
        if self._is_open_without_acl and not self._has_acl(kind, name):
            return ALL_BITS
        return allowed & ~denied

    def _has_acl(self, kind: ResourceKind, name: str) -> bool:
        patterns = self._every.get(kind)
        return patterns is not None and any(True for _ in patterns.of(name))

    def allows_on_any(
        self, principals: Collection[str], host: str, operation: Operation, kind: ResourceKind
    ) -> bool:
        """Returns whether a client may do that with some resource of the kind, there or not yet.

        As `Authorizer.authorizeByResourceType` of KIP-679: a name or prefix that is allowed counts
        unless the same name is denied, or a prefix of it. Implied operations do not count.
        """
        if self.allowed_bits(principals, host, kind, "hardcode") >> operation & 1:
            return True  # as Kafka, which asks about a topic of this name first
        host, bit = plain_host(host), 1 << operation
        ways = [
            patterns
            for principal in (*principals, EVERY_USER)
            if (patterns := self._patterns.get((principal, kind))) is not None
        ]
        if any(_denies(one.literal, WILDCARD, host, bit) for one in ways):
            return False
        return any(
            not _is_denied(ways, name, host, bit, is_literal=is_literal)
            for one in ways
            for is_literal, patterns in ((True, one.literal), (False, one.prefixed))
            for name, hosts in patterns.items()
            if _named(hosts, host, operation)
        )


def _named(hosts: Hosts, host: str, operation: Operation) -> bool:
    """Whether this very operation, or ALL, is allowed."""
    allowed = hosts.get(WILDCARD, (0, 0))[0] | hosts.get(host, (0, 0))[0]
    assert operation not in (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS), "may be implied"
    return bool(allowed >> operation & 1)


def _denies(patterns: Mapping[str, Hosts], name: str, host: str, bit: int) -> bool:
    hosts = patterns.get(name)
    if hosts is None:
        return False
    return bool((hosts.get(WILDCARD, (0, 0))[1] | hosts.get(host, (0, 0))[1]) & bit)


def _is_denied(
    ways: Iterable[_Patterns], name: str, host: str, bit: int, *, is_literal: bool
) -> bool:
    """Whether `name`, itself a pattern, is denied altogether."""
    return any(
        (is_literal and _denies(one.literal, name, host, bit))
        or any(
            _denies(one.prefixed, name[:length], host, bit)
            for length in one.lengths
            if length <= len(name)
        )
        for one in ways
    )
