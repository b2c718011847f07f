"""A broker with a TLS listener, and what clients need to reach it."""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from logstore.wire.framing.client_security import ClientSecurity
from tests.broker.running import Running, running_broker
from tests.certificates import Authority, Pair

TLS = {"listener.security.protocol.map": "PLAINTEXT:SSL"}


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@contextmanager
def secured_broker(
    authority: Authority, directory: Path, more: Mapping[str, str] | None = None
) -> Iterator[Running]:
    pair = authority.pair().write(directory / "pair.pem")
    given = {**TLS, "ssl.keystore.location": str(pair), **(more or {})}
    with running_broker(given) as running:
        yield running


def security(authority: Authority, pair: Path | None = None) -> ClientSecurity:
    return ClientSecurity(client_context(authority, pair))


def client_context(authority: Authority, pair: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority.pem)
    if pair is not None:
        context.load_cert_chain(pair)
    return context


def subject_of(pair: Pair) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return pair.certificate.public_bytes(Encoding.DER)
