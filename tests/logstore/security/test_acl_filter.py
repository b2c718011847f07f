"""Filters of DescribeAcls and DeleteAcls find what Kafka's find."""

import pytest

from logstore.security.acl_filter import AclFilter
from logstore.security.acls import Acl, Operation, PatternKind, Permission, ResourceKind

TOPIC = ResourceKind.TOPIC
LITERAL, PREFIXED = PatternKind.LITERAL, PatternKind.PREFIXED


def named(name: str, pattern: PatternKind) -> Acl:
    return Acl(TOPIC, name, pattern, "User:a", "*", Operation.READ, Permission.ALLOW)


ALL = [named("ab", LITERAL), named("ab", PREFIXED), named("a", PREFIXED), named("*", LITERAL)]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), [0, 1, 2, 3]),
        (AclFilter(name="ab"), [0, 1]),
        (AclFilter(name="ab", pattern=LITERAL), [0]),
        (AclFilter(name="ab", pattern=PREFIXED), [1]),
        (AclFilter(name="ab", is_match=True), [0, 1, 2, 3]),
        (AclFilter(name="ac", is_match=True), [2, 3]),
        (AclFilter(name="*", is_match=True), [3]),
        (AclFilter(pattern=PREFIXED), [1, 2]),
        (AclFilter(kind=ResourceKind.GROUP), []),
        (AclFilter(principal="User:b"), []),
        (AclFilter(principal="User:a", host="*"), [0, 1, 2, 3]),
        (AclFilter(host="10.0.0.1"), []),
        (AclFilter(operation=Operation.WRITE), []),
        (AclFilter(permission=Permission.DENY), []),
    ],
)
def test_a_filter_finds_what_it_names(wanted: AclFilter, found: list[int]) -> None:
    assert [ALL.index(one) for one in ALL if wanted.matches(one)] == found
