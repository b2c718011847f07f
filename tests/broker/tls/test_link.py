"""TLS between a socket and a connection: real handshakes, large requests, broken and rude peers."""

import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from broker.tls import link
from logstore.errors import LogstoreError
from logstore.wire.messages.api_versions import ApiVersionsRequest
from tests.broker.running import (
    DEADLINE_S,
    Running,
    batch_of,
    fetch,
    produce,
    running_broker,
)
from tests.broker.tls.conftest import client_context, secured_broker, security
from tests.certificates import Authority

API_VERSIONS = 18
MAX = 1 << 25
FRAME = b"\0\0\0\x0e\0\x12\0\0\0\0\0\x07\0\x04test"
"""ApiVersions."""


@pytest.fixture
def running(authority: Authority, tmp_path: Path) -> Iterator[Running]:
    with secured_broker(authority, tmp_path) as running:
        yield running


def refusals(running: Running) -> int:
    return running.do(lambda: running.broker.clients.refusals.count)


def plain_socket(running: Running) -> socket.socket:
    return socket.create_connection(("127.0.0.1", running.listener.port), DEADLINE_S)


def ended(peer: socket.socket) -> bool:
    """Whether the broker ends the connection, whatever it sends before."""
    peer.settimeout(DEADLINE_S)
    with suppress(ConnectionError):
        while peer.recv(4096):
            pass
    return True


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_records_of_all_sizes_come_back_as_they_went(
    running: Running, authority: Authority, version: ssl.TLSVersion
) -> None:
    running.create_topic("t")
    secure = security(authority)
    assert secure.context is not None
    secure.context.minimum_version = secure.context.maximum_version = version
    with running.connect(secure) as client:
        for offset, size in enumerate((1, 1000, 16_384, 16_385, 70_000, 1_040_000)):
            value = bytes(range(256)) * (size // 256 + 1)
            answer = produce(client, "t", batch_of(value[:size]), partition=0)
            assert (answer.error_code, answer.base_offset) == (0, offset)
            found = fetch(
                client, "t", offset=offset, max_bytes=MAX, partition_max_bytes=MAX, version=12
            )
            assert isinstance(found.records, bytes | bytearray | memoryview)
            assert value[:size] in bytes(found.records)


def test_requests_in_one_record_and_one_over_many_are_answered_in_order(
    running: Running, authority: Authority
) -> None:
    with client_context(authority).wrap_socket(
        plain_socket(running), server_hostname="127.0.0.1"
    ) as peer:
        peer.sendall(FRAME * 300)
        for byte in FRAME:
            peer.sendall(bytes([byte]))
        answers = peer.makefile("rb")
        for _ in range(301):
            size = int.from_bytes(answers.read(4), "big")
            assert answers.read(size)[:4] == b"\0\0\0\x07"


def test_a_peer_that_takes_its_answers_late_gets_all_of_them(
    running: Running, authority: Authority
) -> None:
    """asyncio's own layer stalls where its write buffer is not to hold anything."""
    context = client_context(authority)
    with context.wrap_socket(plain_socket(running), server_hostname="127.0.0.1") as peer:
        sending = threading.Thread(target=peer.sendall, args=(FRAME * 20_000,))
        sending.start()
        running.wait_until(
            lambda: any(not one.is_idle for one in running.broker.clients.connections)
        )
        answers = peer.makefile("rb")
        for _ in range(20_000):
            size = int.from_bytes(answers.read(4), "big")
            assert len(answers.read(size)) == size
        sending.join()


def test_plain_bytes_on_a_tls_listener_are_one_line(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    with plain_socket(running) as peer:
        peer.sendall(FRAME)
        assert ended(peer)
    lines = [one for one in caplog.messages if "connection closed" in one]
    assert len(lines) == 1
    assert "not TLS on a TLS listener" in lines[0]
    assert "security.protocol=SSL" in lines[0]


def test_a_client_hello_on_a_plain_listener_is_one_line(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with running_broker() as running:
        with pytest.raises(LogstoreError):
            running.connect(security(authority))
        running.wait_until(lambda: not running.broker.clients.connections)
    lines = [one for one in caplog.messages if "connection closed" in one]
    assert len(lines) == 1
    assert "TLS ClientHello" in lines[0]


def test_a_client_that_does_not_trust_the_certificate_is_named_and_closed(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(LogstoreError):
        running.connect(security(Authority("another")))
    running.wait_until(lambda: not running.broker.clients.connections)
    assert any("TLS handshake failed" in one for one in caplog.messages)


def test_a_connection_that_leaves_at_once_writes_no_line(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    plain_socket(running).close()
    running.wait_until(lambda: running.broker.clients.accepted_count > 0)
    running.wait_until(lambda: not running.broker.clients.connections)
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x00\x05abcde",
        b"\x16\x03\x01\xff\xff" + bytes(65_535),
        b"\x16\x03\x03\x00\x00" * 20_000,
        b"GET / HTTP/1.1\r\n\r\n",
        bytes(70_000),
    ],
    ids=["no hello", "too long a record", "empty records", "http", "zeros"],
)
def test_rude_first_bytes_end_the_connection(running: Running, sent: bytes) -> None:
    with plain_socket(running) as peer:
        with suppress(ConnectionError):
            peer.sendall(sent)
        assert ended(peer)
    running.wait_until(lambda: not running.broker.clients.connections)
    assert refusals(running) == 1


def test_a_damaged_record_ends_the_connection(running: Running, authority: Authority) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context(authority).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with plain_socket(running) as peer:
        _shake(client.do_handshake, incoming, outgoing, peer)
        client.write(FRAME)
        data = bytearray(outgoing.read())
        data[-1] ^= 1
        peer.sendall(data)
        assert ended(peer)
    running.wait_until(lambda: not running.broker.clients.connections)
    assert refusals(running) == 1


@pytest.mark.parametrize("says_so", [True, False], ids=["close notify", "cut"])
def test_a_peer_that_writes_no_more_is_closed(
    running: Running, authority: Authority, says_so: bool
) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context(authority).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with plain_socket(running) as peer:
        _shake(client.do_handshake, incoming, outgoing, peer)
        if says_so:
            with pytest.raises(ssl.SSLWantReadError):
                client.unwrap()
            peer.sendall(outgoing.read())
        else:
            peer.shutdown(socket.SHUT_WR)
        assert ended(peer)
    running.wait_until(lambda: not running.broker.clients.connections)


def test_renegotiation_is_refused(running: Running, authority: Authority) -> None:
    assert all(
        one.context.options & ssl.OP_NO_RENEGOTIATION for one in running.secured.by_name.values()
    )


def test_a_handshake_has_a_step_for_each_record(running: Running, authority: Authority) -> None:
    """A peer that sends a byte a second gives threads nothing to do."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context(authority).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()
    with plain_socket(running) as peer:
        peer.sendall(hello[:100])
        counts = running.secured.handshakes.counts
        running.wait_until(lambda: counts["steps"] > 0 or any(map(arrived, links(running))))
        assert running.do(lambda: counts["steps"]) == 0
        peer.sendall(hello[100:])
        incoming.write(peer.recv(1 << 16))
        _shake(client.do_handshake, incoming, outgoing, peer)
        client.write(FRAME)
        peer.sendall(outgoing.read())
        assert peer.recv(1)
    assert running.do(lambda: counts["done"]) == 1


def links(running: Running) -> list[link.TlsLink]:
    found = [one.transport for one in running.broker.clients.connections]
    return [one for one in found if isinstance(one, link.TlsLink)]


def arrived(one: link.TlsLink) -> bytes:
    return one._arrived


def test_silence_is_closed_after_its_time(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "HANDSHAKE_S", 0.1)
    with secured_broker(authority, tmp_path) as running:
        with plain_socket(running) as silent, plain_socket(running) as slow:
            slow.sendall(b"\x16\x03\x01")
            assert ended(silent)
            assert ended(slow)
        assert running.do(lambda: running.secured.handshakes.counts["late"]) == 2


def test_many_hellos_and_silence_do_not_hold_the_others(
    running: Running, authority: Authority
) -> None:
    outgoing = ssl.MemoryBIO()
    client = client_context(authority).wrap_bio(
        ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1"
    )
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()
    silent = [plain_socket(running) for _ in range(200)]
    try:
        for peer in silent:
            peer.sendall(hello)
        with running.connect(security(authority)) as client_of_ours:
            assert (
                client_of_ours.call(API_VERSIONS, ApiVersionsRequest("test", "1")).error_code == 0
            )
    finally:
        for peer in silent:
            peer.close()
    running.wait_until(lambda: not running.broker.clients.connections)


def _shake(
    step: Callable[[], object],
    incoming: ssl.MemoryBIO,
    outgoing: ssl.MemoryBIO,
    peer: socket.socket,
    piece: int = 1 << 16,
) -> None:
    while True:
        try:
            step()
            is_done = True
        except ssl.SSLWantReadError:
            is_done = False
        data = outgoing.read()
        for at in range(0, len(data), piece):
            peer.sendall(data[at : at + piece])
        if is_done:
            return
        incoming.write(peer.recv(1 << 16))
