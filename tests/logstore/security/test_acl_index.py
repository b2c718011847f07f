"""Decisions about ACLs: Kafka's rules, and the index gives what a look at every ACL would."""

from collections.abc import Collection, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.security.acl_index import AclIndex, group, shard_of
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

TOPIC, GROUP = ResourceKind.TOPIC, ResourceKind.GROUP
LITERAL, PREFIXED = PatternKind.LITERAL, PatternKind.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
HERE = "10.0.0.1"


def acl(
    name: str = "orders",
    operation: Operation = Operation.READ,
    permission: Permission = ALLOW,
    *,
    kind: ResourceKind = TOPIC,
    pattern: PatternKind = LITERAL,
    principal: str = "User:alice",
    host: str = WILDCARD,
) -> Acl:
    return Acl(kind, name, pattern, principal, host, operation, permission)


def index_of(*acls: Acl, is_open: bool = False) -> AclIndex:
    index = AclIndex(is_open_without_acl=is_open)
    for shard in {shard_of(one) for one in acls}:
        index.replace(shard, group([one for one in acls if shard_of(one) == shard]))
    return index


def may(
    index: AclIndex,
    operation: Operation = Operation.READ,
    name: str = "orders",
    *,
    principals: Sequence[str] = ("User:alice",),
    host: str = HERE,
    kind: ResourceKind = TOPIC,
) -> bool:
    return bool(index.allowed_bits(principals, host, kind, name) >> operation & 1)


def test_without_an_acl_everything_is_denied() -> None:
    assert not may(index_of())
    assert may(index_of(acl()))
    assert not may(index_of(acl()), principals=["User:bob"])
    assert not may(index_of(acl()), kind=GROUP)


def test_one_that_denies_prevails_wherever_it_stands() -> None:
    denials = [
        acl(permission=DENY),
        acl("*", permission=DENY),
        acl("ord", permission=DENY, pattern=PREFIXED),
        acl(permission=DENY, principal=EVERY_USER),
        acl(permission=DENY, host=HERE),
        acl(operation=Operation.ALL, permission=DENY),
    ]
    for denial in denials:
        assert not may(index_of(denial, acl(), acl("*"), acl(principal=EVERY_USER))), denial


def test_a_denial_for_another_host_principal_or_operation_does_not_count() -> None:
    others = [
        acl(permission=DENY, host="10.0.0.2"),
        acl(permission=DENY, principal="User:bob"),
        acl(operation=Operation.WRITE, permission=DENY),
        acl("order", permission=DENY),
        acl("ordersx", permission=DENY, pattern=PREFIXED),
    ]
    assert may(index_of(acl(), *others))


@pytest.mark.parametrize(
    "implying", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER]
)
def test_what_is_allowed_may_be_described_and_a_denial_implies_nothing(
    implying: Operation,
) -> None:
    assert may(index_of(acl(operation=implying)), Operation.DESCRIBE)
    assert not may(index_of(acl(operation=implying)), Operation.DESCRIBE_CONFIGS)
    denied = index_of(acl(operation=Operation.DESCRIBE), acl(operation=implying, permission=DENY))
    assert may(denied, Operation.DESCRIBE)


def test_who_may_alter_configs_may_describe_them() -> None:
    index = index_of(acl(operation=Operation.ALTER_CONFIGS))
    assert may(index, Operation.DESCRIBE_CONFIGS)
    assert not may(index, Operation.DESCRIBE)


def test_a_star_is_every_resource_and_a_prefixed_star_is_a_prefix() -> None:
    assert may(index_of(acl("*")), name="anything")
    assert not may(index_of(acl("*", pattern=PREFIXED)), name="anything")
    assert may(index_of(acl("*", pattern=PREFIXED)), name="*anything")


def test_groups_count_beside_the_user() -> None:
    index = index_of(acl(principal="Group:ops"))
    assert may(index, principals=["User:alice", "Group:ops"])
    assert not may(index, principals=["User:alice", "Group:op"])


def test_an_address_is_the_same_however_it_is_spelt() -> None:
    assert may(index_of(acl(host="0:0:0:0:0:0:0:1")), host="::1")
    assert may(index_of(acl(host=HERE)), host="::ffff:10.0.0.1")


def test_what_has_no_acl_is_open_only_if_so_set() -> None:
    index = index_of(acl(principal="User:bob"), is_open=True)
    assert may(index, name="payments"), "it has none"
    assert not may(index), "it has one, which is for another client"
    assert not may(
        index_of(acl("pay", principal="User:bob", pattern=PREFIXED), is_open=True), name="payments"
    )


def test_acls_that_are_replaced_count_no_more() -> None:
    first, other = acl(), acl(operation=Operation.WRITE)
    index = index_of(first, other)
    index.replace(shard_of(first), group([other]))
    assert not may(index)
    assert may(index, Operation.WRITE)
    index.replace(shard_of(first), group([]))
    assert not may(index, Operation.WRITE)
    assert list(index.acls) == []
    assert not len(index)


def may_on_any(*acls: Acl, principals: Sequence[str] = ("User:alice",)) -> bool:
    return index_of(*acls).allows_on_any(principals, HERE, Operation.WRITE, TOPIC)


def test_some_topic_may_be_written_by_name_prefix_or_star() -> None:
    write = Operation.WRITE
    assert not may_on_any()
    assert may_on_any(acl("a", write))
    assert may_on_any(acl("a", write, pattern=PREFIXED))
    assert may_on_any(acl("*", write))
    assert may_on_any(acl("a", Operation.ALL))
    assert may_on_any(acl("a", write, principal="Group:g"), principals=["User:a", "Group:g"])
    assert not may_on_any(acl("a", Operation.READ))


def test_no_topic_may_be_written_where_each_that_is_allowed_is_denied() -> None:
    write = Operation.WRITE
    allowed = [acl("ab", write), acl("abc", write, pattern=PREFIXED)]
    assert not may_on_any(*allowed, acl("*", write, DENY))
    assert not may_on_any(*allowed, acl("a", write, DENY, pattern=PREFIXED))
    assert may_on_any(*allowed, acl("abcd", write, DENY, pattern=PREFIXED))
    assert may_on_any(*allowed, acl("ab", write, DENY)), "a prefix goes on beside a name"
    assert not may_on_any(acl("ab", write), acl("ab", write, DENY))


# Against a look at every ACL

NAMES = st.sampled_from(["a", "ab", "abc", "b", "*", "ba"])
ACLS = st.lists(
    st.builds(
        Acl,
        st.sampled_from([TOPIC, GROUP]),
        NAMES,
        st.sampled_from(PatternKind),
        st.sampled_from(["User:u", "User:v", "Group:g", EVERY_USER]),
        st.sampled_from([WILDCARD, HERE, "::1"]),
        st.sampled_from(
            [Operation.ALL, Operation.READ, Operation.DESCRIBE, Operation.ALTER_CONFIGS]
        ),
        st.sampled_from([ALLOW, ALLOW, ALLOW, DENY]),
    ),
    max_size=12,
)


def is_for(one: Acl, principals: Collection[str], host: str, kind: ResourceKind, name: str) -> bool:
    named = name.startswith(one.name) if one.pattern is PREFIXED else one.name in (name, WILDCARD)
    return (
        one.kind is kind
        and named
        and one.principal in (*principals, EVERY_USER)
        and one.host in (WILDCARD, host)
    )


def decided(
    acls: Collection[Acl],
    principals: Collection[str],
    host: str,
    operation: Operation,
    kind: ResourceKind,
    name: str,
    *,
    is_open: bool,
) -> bool:
    """As `StandardAuthorizerData.authorize`, ACL by ACL."""
    found = [one for one in acls if is_for(one, principals, host, kind, name)]
    named = [
        one
        for one in acls
        if is_for(one._replace(principal=EVERY_USER, host=WILDCARD), (), host, kind, name)
    ]
    if not named:
        return is_open
    for one in found:
        if one.permission is DENY and one.operation in (Operation.ALL, operation):
            return False
    implied = {
        Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
        Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
    }.get(operation, set())
    return any(
        one.permission is ALLOW and one.operation in {Operation.ALL, operation, *implied}
        for one in found
    )


@given(ACLS, ACLS, st.sets(st.sampled_from(["User:u", "User:v", "Group:g"])), st.booleans())
def test_the_index_decides_as_a_look_at_every_acl(
    before: list[Acl], acls: list[Acl], principals: set[str], is_open: bool
) -> None:
    index = index_of(*before, is_open=is_open)
    for shard in {shard_of(one) for one in (*before, *acls)}:
        index.replace(shard, group([one for one in acls if shard_of(one) == shard]))

    for kind in (TOPIC, GROUP):
        for name in ("a", "ab", "abc", "b", "c", "*"):
            for host in (HERE, "::1", "10.0.0.2"):
                bits = index.allowed_bits(sorted(principals), host, kind, name)
                for operation in Operation:
                    if operation is Operation.ALL:
                        continue
                    wanted = decided(acls, principals, host, operation, kind, name, is_open=is_open)
                    assert bits >> operation & 1 == wanted, (kind, name, host, operation)


@given(ACLS)
def test_what_some_topic_allows_is_allowed_on_any(acls: list[Acl]) -> None:
    """Of names that are not there yet too: a prefix counts with what could begin with it."""
    index = index_of(*acls)
    some = [*{one.name for one in acls}, *(one.name + "zz" for one in acls)]
    for operation in (Operation.READ, Operation.WRITE):
        is_somewhere = any(
            decided(acls, ["User:u"], HERE, operation, TOPIC, name, is_open=False)
            for name in some
            if name != WILDCARD
        )
        if is_somewhere:
            assert index.allows_on_any(["User:u"], HERE, operation, TOPIC)


def test_a_text_that_is_no_address_stays_as_it_is() -> None:
    assert plain_host("host-1") == "host-1"
    assert plain_host(WILDCARD) == WILDCARD
