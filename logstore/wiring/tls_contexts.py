"""Contexts of TLS from settings: a key pair, certificates that are trusted, versions.

Python loads key pairs from files alone: of those that are not in a PEM file (given as text, or in
PKCS#12) the text is put into a file that has no name and lives in memory (`memfd_create`).
"""

import os
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from logstore.config.kinds import InvalidConfig
from logstore.config.tls import (
    CLIENT_AUTH,
    KEY_PASSWORD,
    KEYSTORE_CHAIN,
    KEYSTORE_KEY,
    KEYSTORE_LOCATION,
    KEYSTORE_PASSWORD,
    KEYSTORE_TYPE,
    NONE,
    PKCS12,
    PROTOCOLS,
    REQUIRED,
    TLS_1_2,
    TLS_1_3,
    TRUSTSTORE_CERTIFICATES,
    TRUSTSTORE_LOCATION,
    TRUSTSTORE_PASSWORD,
    TRUSTSTORE_TYPE,
)
from logstore.errors import Corrupt, Invalid
from logstore.security.certificates import not_after_ms

Text = Callable[[str], str]
"""The text of a setting; empty: none is given."""

FILE_BYTES_MAX = 1024 * 1024
_JAVA_STORE = b"\xfe\xed\xfe\xed"
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_VERSIONS = {TLS_1_2: ssl.TLSVersion.TLSv1_2, TLS_1_3: ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True)
class ServerTls:
    """A context for a listener, and when its certificate ends."""

    context: ssl.SSLContext
    ends_ms: int
    material: bytes = field(repr=False)
    """All bytes that it was made of: others are another context."""


@dataclass(frozen=True, slots=True)
class _Material:
    pair: bytes = field(repr=False)
    trusted: str = field(repr=False)
    password: str = field(repr=False)


def server_tls(text: Text, known: ServerTls | None = None) -> ServerTls:
    """The context of a listener; `known` if what it was made of is the same.

    Reads files, so it is no work for an event loop. Raises `InvalidConfig`, which names no secret.
    """
    material = _material(text)
    if not material.pair:
        raise InvalidConfig(
            f"a TLS listener has no key: set {KEYSTORE_LOCATION}, or {KEYSTORE_KEY} and "
            f"{KEYSTORE_CHAIN}"
        )
    whole = b"\0".join((material.pair, material.trusted.encode(), material.password.encode()))
    if known is not None and known.material == whole:
        return known
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_versions(context, text)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    _load_pair(context, material)
    wanted = text(CLIENT_AUTH)
    if wanted != NONE:
        if not material.trusted:
            raise InvalidConfig(
                f"{CLIENT_AUTH}={wanted} needs {TRUSTSTORE_LOCATION} or {TRUSTSTORE_CERTIFICATES}: "
                "the authorities whose certificates of clients are trusted"
            )
        context.verify_mode = ssl.CERT_REQUIRED if wanted == REQUIRED else ssl.CERT_OPTIONAL
        _trust(context, material.trusted)
    return ServerTls(context, _ends_ms(material.pair), whole)


def client_context(text: Text, *, checks_name: bool, trusts_itself: bool = False) -> ssl.SSLContext:
    """For connections that go out: the authorities of the truststore, else those of the system.

    `trusts_itself`: without a truststore the certificates of its own pair are trusted too, so that
    brokers with one pair, or of one authority that it names, trust each other. Raises
    `InvalidConfig`.
    """
    material = _material(text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = checks_name
    _set_versions(context, text)
    if material.trusted:
        _trust(context, material.trusted)
    else:
        context.load_default_certs()
        if trusts_itself:
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            _trust(context, _certificates(material.pair))
    if material.pair:
        _load_pair(context, material)
    return context


def _material(text: Text) -> _Material:
    location, key, chain = text(KEYSTORE_LOCATION), text(KEYSTORE_KEY), text(KEYSTORE_CHAIN)
    password = text(KEY_PASSWORD)
    if bool(key) != bool(chain) or (location and key):
        raise InvalidConfig(
            f"{KEYSTORE_KEY} and {KEYSTORE_CHAIN} are given together, in place of "
            f"{KEYSTORE_LOCATION}"
        )
    if not location:
        pair = f"{_lines(key)}\n{_lines(chain)}\n".encode() if key else b""
    elif text(KEYSTORE_TYPE) == PKCS12:
        pair, password = _pkcs12_pair(_read(location), text(KEYSTORE_PASSWORD), location), ""
    else:
        pair = _read_parts(location, ("tls.key", "tls.crt"))
    trusted, where = _lines(text(TRUSTSTORE_CERTIFICATES)), text(TRUSTSTORE_LOCATION)
    if trusted and where:
        raise InvalidConfig(f"give one of {TRUSTSTORE_CERTIFICATES}, {TRUSTSTORE_LOCATION}")
    if where and text(TRUSTSTORE_TYPE) == PKCS12:
        trusted = _pkcs12_trusted(_read(where), text(TRUSTSTORE_PASSWORD), where)
    elif where:
        trusted = _read_parts(where, ("ca.crt",)).decode("latin-1")
    return _Material(pair, trusted, password)


def _lines(text: str) -> str:
    """PEM that was written in one line, with spaces or \\n in place of line ends."""
    text = text.strip().replace("\\n", "\n")
    if "\n" in text or not text:
        return text
    parts = text.split("-----")
    # -----BEGIN X----- body -----END X-----: the marks keep their spaces
    return "\n".join(
        f"-----{part}-----" if at % 2 else "\n".join(part.split()) for at, part in enumerate(parts)
    )


def _read_parts(location: str, names: tuple[str, ...]) -> bytes:
    if Path(location).is_dir():
        return b"\n".join(_read(str(Path(location) / name)) for name in names)
    return _read(location)


def _read(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidConfig(f"cannot read {path}: {error.strerror or error}") from error
    if len(data) > FILE_BYTES_MAX:
        raise InvalidConfig(f"too large for keys and certificates: {path} max={FILE_BYTES_MAX}")
    if data.startswith(_JAVA_STORE):
        raise InvalidConfig(
            f"{path} is a Java key store (JKS); convert it: keytool -importkeystore -srckeystore "
            f"{path} -destkeystore {path}.p12 -deststoretype PKCS12, and set its type to PKCS12"
        )
    return data


def _load_pair(context: ssl.SSLContext, material: _Material) -> None:
    def password() -> str:  # a function: OpenSSL would ask at the terminal
        return material.password

    try:
        with _as_file(material.pair) as path:
            context.load_cert_chain(path, password=password)
    except (OSError, ValueError) as error:  # of TLS, too
        reason = getattr(error, "reason", None) or "no key with its certificate"
        raise InvalidConfig(
            f"the key pair of TLS cannot be used: {reason}; give a private key, its certificate "
            f"first and the chain behind it ({KEY_PASSWORD} if the key is encrypted)"
        ) from None


def _trust(context: ssl.SSLContext, trusted: str) -> None:
    try:
        context.load_verify_locations(cadata=trusted)
    except (OSError, ValueError) as error:
        raise InvalidConfig(
            f"the trusted certificates of TLS cannot be used: {getattr(error, 'reason', error)}"
        ) from None


def _set_versions(context: ssl.SSLContext, text: Text) -> None:
    names = [one.strip() for one in text(PROTOCOLS).split(",") if one.strip()]
    versions = sorted(_VERSIONS[one] for one in names) or sorted(_VERSIONS.values())
    context.minimum_version, context.maximum_version = versions[0], versions[-1]


def _certificates(pair: bytes) -> str:
    """The certificates of a PEM text, without its key."""
    parts = pair.decode("latin-1").split(_BEGIN)[1:]
    return "".join(f"{_BEGIN}{part.partition(_END)[0]}{_END}\n" for part in parts)


def _ends_ms(pair: bytes) -> int:
    """When the first certificate of a PEM text ends."""
    _, found, rest = pair.decode("latin-1").partition(_BEGIN)
    body, _, _ = rest.partition(_END)
    try:
        return not_after_ms(ssl.PEM_cert_to_DER_cert(f"{found}{body}{_END}\n"))
    except (ValueError, Corrupt) as error:
        raise InvalidConfig(f"no certificate in the key pair of TLS: {error}") from None


def _pkcs12_pair(data: bytes, password: str, path: str) -> bytes:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise _no_library(path) from None
    try:
        key, certificate, others = pkcs12.load_key_and_certificates(data, password.encode() or None)
    except ValueError:
        raise _bad_pkcs12(path, KEYSTORE_PASSWORD) from None
    if key is None or certificate is None:
        raise InvalidConfig(f"no private key with its certificate in {path}")
    pem = serialization.Encoding.PEM
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return b"".join(
        (
            key.private_bytes(pem, form, plain),
            certificate.public_bytes(pem),
            *(one.public_bytes(pem) for one in others),
        )
    )


def _pkcs12_trusted(data: bytes, password: str, path: str) -> str:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise _no_library(path) from None
    try:
        store = pkcs12.load_pkcs12(data, password.encode() or None)
    except ValueError:
        raise _bad_pkcs12(path, TRUSTSTORE_PASSWORD) from None
    first = [store.cert.certificate] if store.cert is not None else []
    found = [*first, *(one.certificate for one in store.additional_certs)]
    return "".join(one.public_bytes(serialization.Encoding.PEM).decode() for one in found)


def _no_library(path: str) -> Invalid:
    return InvalidConfig(
        f"PKCS#12 needs the extra `security`: pip install 'logstore[security]', or give {path} as "
        "PEM"
    )


def _bad_pkcs12(path: str, name: str) -> Invalid:
    return InvalidConfig(f"not a PKCS#12 file, or {name} is wrong: {path}")


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """A path whose file holds `data`, and that no other user can read."""
    if not hasattr(os, "memfd_create"):  # macOS
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            yield file.name
        return
    number = os.memfd_create("tls", os.MFD_CLOEXEC)
    try:
        with open(number, "wb", closefd=False) as opened:
            opened.write(data)
        yield f"/proc/self/fd/{number}"
    finally:
        os.close(number)
