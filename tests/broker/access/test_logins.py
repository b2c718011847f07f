"""Logins by SASL over real connections: who gets in, who does not, and when it ends."""

import socket
from collections.abc import Iterator

import pytest

from logstore.errors import OutcomeUnknown, Retryable
from logstore.security.broker_login import BROKER_MECHANISM, broker_password
from logstore.security.scram import (
    SHA_256,
    SHA_512,
    ClientExchange,
    LoginFailed,
    salted_password,
)
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client_security import PLAIN, ClientSecurity, login_by
from logstore.wire.framing.login import ClientLogin
from logstore.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from logstore.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from logstore.wire.messages.metadata import MetadataRequest
from logstore.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from logstore.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.running import DEADLINE_S, METADATA, SECRET, Running, running_broker
from tools import full_wire

HANDSHAKE, AUTHENTICATE, API_VERSIONS, DESCRIBE_USERS, ALTER_USERS = 17, 36, 18, 50, 51
Item = ScramCredentialUpsertion | ScramCredentialDeletion
SASL = {"listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT"}
ENDED = (OutcomeUnknown, Retryable)
"""What a client meets whose connection ends."""
NUMBERS = {SHA_256: 1, SHA_512: 2}
BROKER = ClientLogin(BROKER_MECHANISM, SHA_256, "7", broker_password(SECRET))


@pytest.fixture
def running() -> Iterator[Running]:
    with running_broker(SASL) as one:
        add_user(one, "alice", "pencil")
        yield one


def open_as(running: Running, login: ClientLogin | None) -> full_wire.Connection:
    security = PLAIN if login is None else ClientSecurity(login=login_by(login))
    port = running.listener.port
    return full_wire.Connection.open("127.0.0.1", port, DEADLINE_S, security=security)


def alice(password: str = "pencil", mechanism: str = SHA_256) -> ClientLogin:
    return ClientLogin(mechanism, mechanism, "alice", password)


def upsertion(name: str, password: str, mechanism: str = SHA_256) -> ScramCredentialUpsertion:
    salted = salted_password(mechanism, password, b"salt", 4096)
    return ScramCredentialUpsertion(name, NUMBERS[mechanism], 4096, b"salt", salted)


def alter(
    running: Running, *items: ScramCredentialUpsertion | ScramCredentialDeletion
) -> list[int]:
    """By a broker, which needs no user to log in, and may do this while nothing refuses it."""
    deletions = [one for one in items if isinstance(one, ScramCredentialDeletion)]
    upsertions = [one for one in items if isinstance(one, ScramCredentialUpsertion)]
    with open_as(running, BROKER) as client:
        request = AlterUserScramCredentialsRequest(deletions, upsertions)
        return [one.error_code for one in client.call(ALTER_USERS, request).results]


def add_user(running: Running, name: str, password: str, mechanism: str = SHA_256) -> None:
    assert alter(running, upsertion(name, password, mechanism)) == [0]


def principals(running: Running) -> list[str]:
    return running.do(lambda: [one.principal for one in running.broker.clients.connections])


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_a_user_who_proves_the_password_is_logged_in(running: Running, mechanism: str) -> None:
    add_user(running, "alice", "pencil", mechanism)
    with open_as(running, alice(mechanism=mechanism)) as client:
        assert client.call(METADATA, MetadataRequest(topics=[])).brokers
        assert principals(running) == ["User:alice"]


def test_before_the_login_nothing_else_is_answered(running: Running) -> None:
    with open_as(running, None) as client:
        assert client.negotiate()
        with pytest.raises(ENDED):
            client.call(METADATA, MetadataRequest(topics=[]))


def test_a_wrong_password_and_an_unknown_user_look_alike(running: Running) -> None:
    texts = set()
    for login in (alice("pencils"), ClientLogin(SHA_256, SHA_256, "mallory", "pencil")):
        with pytest.raises(LoginFailed) as failed:
            open_as(running, login)
        texts.add(str(failed.value))
    assert len(texts) == 1
    assert "invalid credentials with SASL mechanism SCRAM-SHA-256" in texts.pop()


def test_an_unknown_user_is_asked_with_the_same_salt_each_time(running: Running) -> None:
    salts = set()
    for _ in range(2):
        with open_as(running, None) as client:
            client.call(HANDSHAKE, SaslHandshakeRequest(SHA_256), 1)
            first = ClientExchange(SHA_256, "mallory", "", "abc").first()
            challenge = client.call(AUTHENTICATE, SaslAuthenticateRequest(first), 2)
            salts.add(bytes(challenge.auth_bytes).split(b",s=")[1])
    assert len(salts) == 1


def test_a_mechanism_that_is_not_offered_is_refused_with_those_that_are(running: Running) -> None:
    with open_as(running, None) as client:
        answer = client.call(HANDSHAKE, SaslHandshakeRequest("PLAIN"), 1)
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == [SHA_512, SHA_256]


def test_a_token_without_a_handshake_is_refused(running: Running) -> None:
    with open_as(running, None) as client:
        answer = client.call(AUTHENTICATE, SaslAuthenticateRequest(b"n,,n=alice,r=abc"), 2)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_a_listener_without_logins_says_so() -> None:
    with running_broker() as running, pytest.raises(LoginFailed, match="asks for no login"):
        open_as(running, alice())


def test_after_the_first_handshake_of_kafka_tokens_come_bare(running: Running) -> None:
    exchange = ClientExchange(SHA_256, "alice", "pencil", "abc")
    with open_as(running, None) as client:
        assert not client.call(HANDSHAKE, SaslHandshakeRequest(SHA_256), 0).error_code
        peer = client._peer
        challenge = _bare(peer, exchange.first())
        exchange.check(_bare(peer, exchange.prove(challenge)))
        assert client.call(METADATA, MetadataRequest(topics=[]), 1).brokers


def _bare(peer: socket.socket, token: bytes) -> bytes:
    peer.sendall(len(token).to_bytes(4, "big") + token)
    size = int.from_bytes(peer.recv(4, socket.MSG_WAITALL), "big")
    return peer.recv(size, socket.MSG_WAITALL)


def test_a_frame_before_the_login_is_bounded(running: Running) -> None:
    with open_as(running, None) as client:
        client.call(HANDSHAKE, SaslHandshakeRequest(SHA_256), 1)
        with pytest.raises(ENDED):
            client.call(AUTHENTICATE, SaslAuthenticateRequest(bytes(100_000)), 2)


def test_a_broker_of_the_cluster_logs_in_by_its_secret(running: Running) -> None:
    with open_as(running, BROKER):
        assert principals(running) == ["Broker:7"]
    with pytest.raises(LoginFailed):
        open_as(running, BROKER._replace(password=broker_password(bytes(32))))


def test_a_connection_whose_user_is_deleted_ends(running: Running) -> None:
    with open_as(running, alice()) as client, open_as(running, BROKER) as other:
        assert alter(running, ScramCredentialDeletion("alice", NUMBERS[SHA_256])) == [0]
        with pytest.raises(ENDED):
            client.call(METADATA, MetadataRequest(topics=[]))
        assert other.call(METADATA, MetadataRequest(topics=[])).brokers
    with pytest.raises(LoginFailed):
        open_as(running, alice())


def test_a_session_ends_unless_the_client_logs_in_again() -> None:
    with running_broker({**SASL, "connections.max.reauth.ms": "50"}) as running:
        add_user(running, "alice", "pencil")
        add_user(running, "bob", "pencil")
        with open_as(running, alice()) as client:
            login_by(alice())(client)
            assert client.call(METADATA, MetadataRequest(topics=[])).brokers
            with pytest.raises(LoginFailed):
                login_by(ClientLogin(SHA_256, SHA_256, "bob", "pencil"))(client)
        with open_as(running, alice()) as client:
            running.clock.later_s = 0.1
            with pytest.raises(ENDED):
                client.call(METADATA, MetadataRequest(topics=[]))


def test_without_sessions_a_second_login_is_refused(running: Running) -> None:
    with open_as(running, alice()) as client:
        answer = client.call(HANDSHAKE, SaslHandshakeRequest(SHA_256), 1)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_users_are_shown_with_their_mechanisms_and_nothing_more(running: Running) -> None:
    with open_as(running, BROKER) as client:
        names = [UserName("alice"), UserName("bob"), UserName("eve"), UserName("eve")]
        shown = client.call(DESCRIBE_USERS, DescribeUserScramCredentialsRequest(names)).results
        assert [(one.user, one.error_code) for one in shown] == [
            ("alice", 0),
            ("bob", ErrorCode.RESOURCE_NOT_FOUND),
            ("eve", ErrorCode.DUPLICATE_RESOURCE),
        ]
        assert [(i.mechanism, i.iterations) for i in shown[0].credential_infos] == [(1, 4096)]
        assert [
            one.user
            for one in client.call(
                DESCRIBE_USERS, DescribeUserScramCredentialsRequest(None)
            ).results
        ] == ["alice"]


def test_a_credential_that_makes_no_sense_is_refused(running: Running) -> None:
    bad: list[tuple[Item, ErrorCode]] = [
        (ScramCredentialDeletion("frank", 1), ErrorCode.RESOURCE_NOT_FOUND),
        (ScramCredentialDeletion("a", 9), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (ScramCredentialUpsertion("", 1, 4096, b"s", b"p"), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (ScramCredentialUpsertion("b", 1, 4095, b"s", b"p"), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (ScramCredentialUpsertion("c", 1, 16385, b"s", b"p"), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (ScramCredentialUpsertion("d", 1, 4096, b"", b"p"), ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ]
    assert alter(running, *(one for one, _ in bad)) == [code for _, code in bad]
    twice = [upsertion("dave", "a"), upsertion("dave", "b")]
    assert alter(running, *twice) == [ErrorCode.DUPLICATE_RESOURCE]
    assert "dave" not in running.log.rows.users


def test_a_client_without_the_right_changes_no_user() -> None:
    acls = {
        **SASL,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    }
    with running_broker(acls) as running:
        assert alter(running, upsertion("eve", "x")) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
