"""Rows of ACLs and their records: what is stored comes back, and equal ones have equal bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Corrupt, Refused
from logstore.formats.acl_record import (
    AclRecord,
    acl_record_key,
    decode_acl_record,
    encode_acl_record,
)
from logstore.formats.acl_row import SHARDS, AclRow
from logstore.security.acl_index import shard_of
from logstore.security.acls import Acl, Operation, PatternKind, Permission, ResourceKind
from tests.golden.samples import acl_record, golden

ALICE = Acl(
    ResourceKind.TOPIC,
    "orders",
    PatternKind.LITERAL,
    "User:alice",
    "*",
    Operation.READ,
    Permission.ALLOW,
)
ACLS = st.lists(
    st.builds(
        Acl,
        st.sampled_from(ResourceKind),
        st.text(max_size=10),
        st.sampled_from(PatternKind),
        st.text(max_size=10),
        st.text(max_size=10),
        st.sampled_from(Operation),
        st.sampled_from(Permission),
    ),
    max_size=5,
)


@given(st.integers(1, 2**60), ACLS)
def test_a_row_and_its_record_come_back(version: int, acls: list[Acl]) -> None:
    row = AclRow(version, tuple(sorted(acls)))
    record = AclRecord("a", row)

    assert AclRow.of(row.row()) == row
    assert decode_acl_record(record.key, encode_acl_record(record)) == record
    assert AclRow(version, tuple(reversed(row.acls))).row() == row.row(), "in whatever order"


@given(ACLS)
def test_every_acl_has_one_row_of_sixteen(acls: list[Acl]) -> None:
    assert all(shard_of(one) in SHARDS for one in acls)


def test_the_bytes_of_a_row() -> None:
    assert AclRow(3, (ALICE,)).row() == {
        "version": 3,
        "acls": '[["User:alice","TOPIC","LITERAL","orders","*","READ","ALLOW"]]',
    }


def test_the_bytes_of_a_record() -> None:
    record = decode_acl_record(acl_record().key, golden("acl-record-1"))
    assert record.content.version == 4
    assert set(record.content.acls) == set(acl_record().content.acls)
    assert encode_acl_record(record) == golden("acl-record-1")


@pytest.mark.parametrize(
    "acls",
    [
        '[["User:alice","TOPIC","LITERAL","orders","*","READ","PERHAPS"]]',
        '[["User:alice","TOPIC"]]',
        "{",
        "7",
    ],
)
def test_a_row_that_cannot_be_read_is_damage_and_no_right(acls: str) -> None:
    with pytest.raises(Corrupt, match="acls="):
        AclRow.of({"version": 1, "acls": acls})


def test_a_record_of_another_key_or_format_is_refused() -> None:
    data = encode_acl_record(AclRecord("a", AclRow(4, (ALICE,))))
    with pytest.raises(Corrupt, match="key of another"):
        decode_acl_record(acl_record_key("a", 5), data)
    with pytest.raises(Refused, match="upgrade"):
        decode_acl_record(acl_record_key("a", 4), data.replace(b'"format": 1', b'"format": 2'))
    with pytest.raises(Corrupt, match="cannot be read"):
        decode_acl_record(acl_record_key("a", 4), b"{}")
