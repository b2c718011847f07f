"""Certificates of clients name their principals; a listener takes the pair that its files have."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from broker.network.authorizer import ANONYMOUS
from broker.tls.handshakes import Handshakes
from broker.tls.secured_listener import SecuredListener
from logstore.config.broker import BrokerSettings
from logstore.errors import LogstoreError
from logstore.wire.messages.api_versions import ApiVersionsRequest
from tests.broker.running import Running
from tests.broker.tls.conftest import secured_broker, security
from tests.certificates import NOW, Authority

API_VERSIONS = 18
NOW_MS = int(NOW.timestamp() * 1000)
ALICE = x509.Name(
    [
        x509.NameAttribute(NameOID.COUNTRY_NAME, "CH"),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Acme, Inc."),
        x509.NameAttribute(NameOID.COMMON_NAME, "alice"),
    ]
)


def principal(running: Running) -> str:
    return running.do(lambda: next(iter(running.broker.clients.connections)).principal)


def client_auth(authority: Authority, directory: Path, wanted: str) -> dict[str, str]:
    trusted = authority.write(directory / "ca.pem")
    return {"ssl.client.auth": wanted, "ssl.truststore.location": str(trusted)}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("", r"User:CN=alice,O=Acme\, Inc.,C=CH"),
        ("RULE:^CN=(.*?),.*$/$1/U,DEFAULT", "User:ALICE"),
        ("RULE:^OU=.*$/x/,DEFAULT", r"User:CN=alice,O=Acme\, Inc.,C=CH"),
    ],
)
def test_the_subject_of_a_certificate_names_the_principal(
    authority: Authority, tmp_path: Path, rules: str, expected: str
) -> None:
    more = {
        **client_auth(authority, tmp_path, "required"),
        "ssl.principal.mapping.rules": rules,
    }
    alice = authority.pair(ALICE).write(tmp_path / "alice.pem")
    with (
        secured_broker(authority, tmp_path, more) as running,
        running.connect(security(authority, alice)) as client,
    ):
        client.call(API_VERSIONS, ApiVersionsRequest("test", "1"))
        assert principal(running) == expected


def test_a_subject_that_no_rule_takes_is_refused(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    more = {
        **client_auth(authority, tmp_path, "required"),
        "ssl.principal.mapping.rules": "RULE:^CN=bob$/bob/",
    }
    alice = authority.pair(ALICE).write(tmp_path / "alice.pem")
    with secured_broker(authority, tmp_path, more) as running:
        with pytest.raises(LogstoreError), running.connect(security(authority, alice)) as client:
            client.call(API_VERSIONS, ApiVersionsRequest("test", "1"))
        running.wait_until(lambda: not running.broker.clients.connections)
    assert any("no rule of ssl.principal.mapping.rules" in one for one in caplog.messages)


@pytest.mark.parametrize("wanted", ["required", "requested"])
@pytest.mark.parametrize("kind", ["of another authority", "that has ended"])
def test_a_certificate_that_is_not_valid_is_refused(
    authority: Authority, tmp_path: Path, wanted: str, kind: str
) -> None:
    signer = authority if kind == "that has ended" else Authority("another")
    ends = NOW + timedelta(days=-1 if kind == "that has ended" else 1)
    bad = signer.pair("mallory", ends=ends).write(tmp_path / "bad.pem")
    with (
        secured_broker(authority, tmp_path, client_auth(authority, tmp_path, wanted)) as running,
        pytest.raises(LogstoreError),
        running.connect(security(authority, bad)) as client,
    ):
        client.call(API_VERSIONS, ApiVersionsRequest("test", "1"))


def test_no_certificate_is_anonymous_or_refused(authority: Authority, tmp_path: Path) -> None:
    asked = client_auth(authority, tmp_path, "requested")
    with (
        secured_broker(authority, tmp_path, asked) as running,
        running.connect(security(authority)) as client,
    ):
        client.call(API_VERSIONS, ApiVersionsRequest("test", "1"))
        assert principal(running) == ANONYMOUS
    must = client_auth(authority, tmp_path, "required")
    with (
        secured_broker(authority, tmp_path, must) as running,
        pytest.raises(LogstoreError),
        running.connect(security(authority)) as client,
    ):
        client.call(API_VERSIONS, ApiVersionsRequest("test", "1"))


class TestRotation:
    def run(self, authority: Authority, path: Path, change: str) -> tuple[SecuredListener, int]:
        """A listener after one look at its files as changed, and when its first pair ends."""

        async def look() -> tuple[SecuredListener, int]:
            handshakes = Handshakes(asyncio.get_running_loop())
            try:
                settings = BrokerSettings({"ssl.keystore.location": str(path)})
                listener = SecuredListener("X", settings.of_listener("X").text, handshakes)
                before = listener.ends_ms
                await asyncio.to_thread(path.write_text, change)
                await listener.look(NOW_MS)
                return listener, before
            finally:
                handshakes.close()

        authority.pair(ends=NOW + timedelta(days=1)).write(path)
        return asyncio.run(look())

    def test_a_new_pair_is_taken(self, authority: Authority, tmp_path: Path) -> None:
        new = authority.pair(ends=NOW + timedelta(days=2))
        listener, before = self.run(authority, tmp_path / "pair.pem", new.pem)
        assert listener.ends_ms == before + 86_400_000

    @pytest.mark.parametrize("kind", ["half", "of another key", "ended", "empty"])
    def test_of_a_bad_pair_the_old_one_stays_and_it_is_said(
        self, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
    ) -> None:
        new = authority.pair(ends=NOW + timedelta(days=-1 if kind == "ended" else 2))
        change = {
            "half": new.pem[: len(new.pem) - 100],
            "of another key": authority.pair().key_pem + new.certificate_pem,
            "ended": new.pem,
            "empty": "",
        }[kind]
        listener, before = self.run(authority, tmp_path / "pair.pem", change)
        assert listener.ends_ms == before
        lines = [one for one in caplog.messages if "the old one stays" in one]
        assert len(lines) == 1
        assert "PRIVATE" not in lines[0]
