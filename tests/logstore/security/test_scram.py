"""SCRAM: the exchange of RFC 7677, and what an attacker may send instead of a step of it."""

import base64

import pytest

from logstore.security.scram import (
    ITERATIONS_MIN,
    SHA_256,
    SHA_512,
    ClientExchange,
    LoginFailed,
    ServerExchange,
    Verifier,
    parse_first,
    salted_password,
    verifier_of,
)

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE, MORE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"


def verifier(password: str = "pencil", mechanism: str = SHA_256) -> Verifier:
    salted = salted_password(mechanism, password, SALT, 4096)
    return verifier_of(mechanism, salted, SALT, 4096)


def test_the_exchange_of_rfc_7677_is_the_one_that_both_sides_have() -> None:
    client = ClientExchange(SHA_256, "user", "pencil", NONCE)
    first = client.first()
    server = ServerExchange(SHA_256, parse_first(first), [verifier()], MORE)
    assert first == f"n,,n=user,r={NONCE}".encode()
    assert server.challenge == f"r={NONCE}{MORE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    proof = client.prove(server.challenge.encode())
    assert proof.endswith(b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    last = server.check(proof)
    assert last == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    client.check(last)


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize("name", ["alice", "a,b=c", "=2C", "ünï\ncode"])
def test_any_name_and_password_log_in_by_each_mechanism(mechanism: str, name: str) -> None:
    client = ClientExchange(mechanism, name, "pass,wörd=", "abc")
    parsed = parse_first(client.first())
    server = ServerExchange(mechanism, parsed, [verifier("pass,wörd=", mechanism)], "def")
    client.check(server.check(client.prove(server.challenge.encode())))
    assert parsed.name == name


def test_of_two_passwords_that_count_each_logs_in_and_no_third() -> None:
    for password, is_ok in (("new", True), ("old", True), ("older", False)):
        client = ClientExchange(SHA_256, "alice", password, "abc")
        both = [verifier("new"), verifier("old")]
        server = ServerExchange(SHA_256, parse_first(client.first()), both, "def")
        proof = client.prove(server.challenge.encode())
        if is_ok:
            client.check(server.check(proof))
        else:
            with pytest.raises(LoginFailed, match="proof"):
                server.check(proof)


@pytest.mark.parametrize(
    "first",
    [
        b"n,a=bob,n=alice,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=alice,r=",
        b"n,,n=al=ice,r=abc",
        b"n,,r=abc,n=alice",
        b"n,,m=x,n=alice,r=abc",
        b"\xff\xfe",
        b"",
        b"n,,n=" + b"a" * 5000 + b",r=abc",
    ],
)
def test_a_first_message_that_is_none_is_refused(first: bytes) -> None:
    """Among them one as another user: that would act as whom it did not prove to be."""
    with pytest.raises(LoginFailed):
        parse_first(first)


@pytest.mark.parametrize(
    ("was", "becomes", "why"),
    [
        (b"r=abcdef", b"r=abcdeg", "nonce"),
        (b"r=abcdef", b"r=abc", "nonce"),
        (b"c=biws", b"c=eSws", "binding"),
        (b",p=", b",p=AAAA", "proof"),
        (b",p=", b",x=", "not a final"),
        (b"c=biws,", b"", "not a final"),
    ],
)
def test_a_final_message_of_another_exchange_is_refused(
    was: bytes, becomes: bytes, why: str
) -> None:
    client = ClientExchange(SHA_256, "alice", "pencil", "abc")
    server = ServerExchange(SHA_256, parse_first(client.first()), [verifier()], "def")
    proof = client.prove(server.challenge.encode())
    assert was in proof
    with pytest.raises(LoginFailed, match=why):
        server.check(proof.replace(was, becomes))


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=abc,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"r=xyzdef,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"r=abcdef,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=999999999",
        b"r=abcdef,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1",
        b"r=abcdef,s=,i=4096",
        b"e=other-error",
    ],
)
def test_a_client_takes_no_challenge_that_weakens_it_or_keeps_it_busy(challenge: bytes) -> None:
    client = ClientExchange(SHA_256, "alice", "pencil", "abc")
    with pytest.raises(LoginFailed):
        client.prove(challenge)


def test_a_client_notices_a_server_that_does_not_know_its_password() -> None:
    client = ClientExchange(SHA_256, "alice", "pencil", "abc")
    client.first()
    client.prove(b"r=abcdef,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    for last in (b"v=AAAA", b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", b"e=no", b""):
        with pytest.raises(LoginFailed, match="proved"):
            client.check(last)


def test_no_secret_is_in_a_text() -> None:
    client = ClientExchange(SHA_256, "alice", "pencil", "abc")
    assert "pencil" not in repr(client)
    assert repr(verifier()) == f"Verifier(iterations={ITERATIONS_MIN})"
