"""Contexts of TLS from every form that settings give keys in; errors that say what to do."""

import ssl
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from logstore.config.broker import BrokerSettings
from logstore.config.kinds import InvalidConfig
from logstore.wiring.tls_contexts import ServerTls, client_context, server_tls
from tests.certificates import NOW, Authority

PAIR_SECRET = "open-sesame"
AUTHORITY = Authority()


def made(given: Mapping[str, str]) -> ServerTls:
    return server_tls(BrokerSettings(given).text)


@pytest.mark.parametrize("form", ["file", "folder", "text", "one line", "encrypted", "pkcs12"])
def test_a_pair_is_taken_in_every_form(tmp_path: Path, form: str) -> None:
    pair = AUTHORITY.pair(ends=NOW + timedelta(days=3))
    place = tmp_path / "pair"
    given = {"ssl.keystore.location": str(place)}
    match form:
        case "file":
            place.write_text(pair.pem)
        case "folder":
            place.mkdir()
            (place / "tls.key").write_text(pair.key_pem)
            (place / "tls.crt").write_text(pair.certificate_pem)
        case "text" | "one line":
            join = "\n" if form == "text" else " "
            given = {
                "ssl.keystore.key": pair.key_pem.replace("\n", join),
                "ssl.keystore.certificate.chain": pair.certificate_pem.replace("\n", join),
            }
        case "encrypted":
            place.write_text(pair.encrypted_pem(PAIR_SECRET))
            given["ssl.key.password"] = PAIR_SECRET
        case _:
            place.write_bytes(pair.pkcs12(PAIR_SECRET))
            given |= {"ssl.keystore.type": "PKCS12", "ssl.keystore.password": PAIR_SECRET}
    assert made(given).ends_ms == pair.certificate.not_valid_after_utc.timestamp() * 1000


def test_an_encrypted_key_without_its_password_asks_no_terminal(tmp_path: Path) -> None:
    place = tmp_path / "pair.pem"
    place.write_text(AUTHORITY.pair().encrypted_pem(PAIR_SECRET))
    for password in ("", "wrong"):
        with pytest.raises(InvalidConfig, match=r"ssl\.key\.password"):
            made({"ssl.keystore.location": str(place), "ssl.key.password": password})


def test_a_java_store_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    place = tmp_path / "store.jks"
    place.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\x02")
    with pytest.raises(InvalidConfig, match=r"keytool -importkeystore .*-deststoretype PKCS12"):
        made({"ssl.keystore.location": str(place)})
    with pytest.raises(InvalidConfig, match="keytool -importkeystore"):
        BrokerSettings({"ssl.keystore.type": "JKS"})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "ssl.keystore.location"),
        ({"ssl.keystore.key": "x"}, "given together"),
        ({"ssl.keystore.location": "/nothing/there"}, "cannot read /nothing/there"),
    ],
)
def test_settings_that_make_no_pair_are_refused(given: dict[str, str], expected: str) -> None:
    with pytest.raises(InvalidConfig, match=expected):
        made(given)


def test_clients_that_must_show_certificates_need_authorities(tmp_path: Path) -> None:
    place = AUTHORITY.pair().write(tmp_path / "pair.pem")
    with pytest.raises(InvalidConfig, match=r"ssl\.truststore\.location"):
        made({"ssl.keystore.location": str(place), "ssl.client.auth": "required"})


def test_no_secret_is_in_an_error_or_a_repr(tmp_path: Path) -> None:
    place = tmp_path / "pair.p12"
    place.write_bytes(AUTHORITY.pair().pkcs12("another"))
    with pytest.raises(InvalidConfig) as error:
        made(
            {
                "ssl.keystore.location": str(place),
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.password": PAIR_SECRET,
            }
        )
    assert PAIR_SECRET not in str(error.value)
    good = AUTHORITY.pair().write(tmp_path / "pair.pem")
    assert "PRIVATE" not in repr(made({"ssl.keystore.location": str(good)}))


def test_versions_of_tls_are_those_that_are_enabled(tmp_path: Path) -> None:
    place = AUTHORITY.pair().write(tmp_path / "pair.pem")
    given = {"ssl.keystore.location": str(place), "ssl.enabled.protocols": "TLSv1.3"}
    assert made(given).context.minimum_version is ssl.TLSVersion.TLSv1_3
    both = made({"ssl.keystore.location": str(place)}).context
    assert both.minimum_version is ssl.TLSVersion.TLSv1_2


def test_a_client_checks_the_name_unless_it_is_said_not_to() -> None:
    settings = BrokerSettings({"ssl.truststore.certificates": AUTHORITY.pem})
    assert client_context(settings.text, checks_name=True).check_hostname
    context = client_context(settings.text, checks_name=False)
    assert not context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
