"""When a server's certificate ends, from its bytes and from a real handshake."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore.cli.doctor.certificates import certificate_ends_ms
from logstore.errors import Corrupt, Unavailable
from logstore.security.certificates import not_after_ms

BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
TIMEOUT_S = 20.0
KEY = ec.generate_private_key(ec.SECP256R1())


def made(end: datetime) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "store.example")])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(KEY.public_key())
        .serial_number(7)
        .not_valid_before(BEGIN)
        .not_valid_after(end)
        .sign(KEY, hashes.SHA256())
    )


@settings(max_examples=20)
@given(st.integers(1, 80 * 365 * 86_400))  # beyond 2049 the other form of time
def test_the_end_is_read_from_the_bytes(seconds: int) -> None:
    end = BEGIN + timedelta(seconds=seconds)
    data = made(end).public_bytes(serialization.Encoding.DER)
    assert not_after_ms(data) == int(end.timestamp() * 1000)


@given(st.binary(max_size=200), st.integers(0, 400))
def test_other_bytes_are_refused_or_have_an_end(data: bytes, cut: int) -> None:
    whole = made(BEGIN + timedelta(days=1)).public_bytes(serialization.Encoding.DER)
    for text in (data, whole[:cut], data + whole):
        try:
            assert not_after_ms(text) == int((BEGIN + timedelta(days=1)).timestamp() * 1000)
        except Corrupt as error:
            assert "not a certificate" in str(error)


@contextmanager
def server(directory: Path, end: datetime) -> Iterator[int]:
    """The port of a server that greets by TLS and says nothing."""
    pem = directory / "server.pem"
    pem.write_bytes(
        made(end).public_bytes(serialization.Encoding.PEM)
        + KEY.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def greet() -> None:
            connection, _ = listening.accept()
            context.wrap_socket(connection, server_side=True).close()

        greeter = threading.Thread(target=greet)
        greeter.start()
        yield listening.getsockname()[1]
        greeter.join()


def test_it_is_that_of_the_server_though_it_has_ended(tmp_path: Path) -> None:
    end = BEGIN + timedelta(days=30)
    with server(tmp_path, end) as port:
        found = certificate_ends_ms(f"https://127.0.0.1:{port}", TIMEOUT_S)
    assert found == int(end.timestamp() * 1000)


def test_a_server_that_is_not_there_is_said() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(Unavailable, match="no TLS handshake: url=https://127"):
        certificate_ends_ms(f"https://127.0.0.1:{port}", TIMEOUT_S)
