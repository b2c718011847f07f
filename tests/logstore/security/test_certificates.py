"""Subjects as Java prints them: expected texts are of `X500Principal.getName()`."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Corrupt
from logstore.security.certificates import subject
from tests.certificates import Authority

AUTHORITY = Authority()


def of(*attributes: tuple[x509.ObjectIdentifier, str]) -> str:
    name = x509.Name([x509.NameAttribute(kind, text) for kind, text in attributes])
    return subject(AUTHORITY.pair(name).certificate.public_bytes(Encoding.DER))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("alice", "CN=alice"),
        ("a,b", r"CN=a\,b"),
        ('q"+<>;=#\\', r"CN=q\"\+\<\>\;\=\#\\"),
        (" lead and trail ", r"CN=\ lead and trail\ "),
        ("Zürich", "CN=Zürich"),
        ("  ", r"CN=\ \ "),
    ],
)
def test_characters_are_escaped_as_by_java(text: str, shown: str) -> None:
    assert of((NameOID.COMMON_NAME, text)) == shown


def test_the_last_part_comes_first_and_few_types_have_names() -> None:
    assert (
        of(
            (NameOID.COUNTRY_NAME, "CH"),
            (NameOID.STATE_OR_PROVINCE_NAME, "ZH"),
            (NameOID.LOCALITY_NAME, "Z"),
            (NameOID.ORGANIZATION_NAME, "O"),
            (NameOID.ORGANIZATIONAL_UNIT_NAME, "U"),
            (NameOID.DOMAIN_COMPONENT, "d"),
            (NameOID.USER_ID, "u"),
            (NameOID.STREET_ADDRESS, "s"),
            (NameOID.COMMON_NAME, "c"),
        )
        == "CN=c,STREET=s,UID=u,DC=d,OU=U,O=O,L=Z,ST=ZH,C=CH"
    )
    assert (
        of((NameOID.COMMON_NAME, "c"), (NameOID.EMAIL_ADDRESS, "a@b.c"))
        == "1.2.840.113549.1.9.1=#16056140622e63,CN=c"
    )


@given(st.binary(max_size=300), st.integers(0, 400))
def test_other_bytes_are_refused(data: bytes, cut: int) -> None:
    whole = AUTHORITY.pair().certificate.public_bytes(Encoding.DER)
    for text in (data, whole[:cut]):
        try:
            subject(text)
        except Corrupt as error:
            assert "not a certificate" in str(error)
