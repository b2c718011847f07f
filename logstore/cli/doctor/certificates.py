"""When the certificate of a server ends: one TLS handshake, whose certificate is only read.

It is not verified here: one that has ended is to be read, too. By RFC 5280, 4.1, in DER:

    certificate   SEQUENCE { SEQUENCE { [0] version?, serial, algorithm, issuer, validity … } … }
    validity      SEQUENCE { not before, not after }
    times         UTCTime YYMMDDhhmmssZ, from 2050 on GeneralizedTime YYYYMMDDhhmmssZ

Each element is a tag, a length (of one byte, or 0x80 + n and n bytes), and its content.
"""

import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urlsplit

from logstore.errors import Corrupt, Unavailable

HTTPS_PORT = 443
VERSION_TAG, UTC_TIME = 0xA0, 0x17
_FORMS = {UTC_TIME: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}


class _Element(NamedTuple):
    tag: int
    content: memoryview


def certificate_ends_ms(url: str, timeout_s: float) -> int:
    """Of the server at an https URL, by the wall clock. Raises `Unavailable` or `Corrupt`."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, parts.port or HTTPS_PORT), timeout_s) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            data = secured.getpeercert(binary_form=True)
    except OSError as error:  # of TLS, too
        raise Unavailable(f"no TLS handshake: url={url} {error}") from error
    if data is None:
        raise Unavailable(f"the server showed no certificate: url={url}")
    return not_after_ms(data)


def not_after_ms(certificate: bytes) -> int:
    """Raises `Corrupt` for bytes that are no certificate."""
    try:
        (whole,) = _elements(memoryview(certificate))
        signed = next(_elements(whole.content))
        fields = [one for one in _elements(signed.content) if one.tag != VERSION_TAG]
        _, end = _elements(fields[3].content)
        text = bytes(end.content).decode()
        moment = datetime.strptime(text, _FORMS[end.tag]).replace(tzinfo=UTC)
    except (ValueError, IndexError, KeyError, StopIteration) as error:
        raise Corrupt(f"not a certificate: bytes={len(certificate)}") from error
    return int(moment.timestamp() * 1000)


def _elements(data: memoryview) -> Iterator[_Element]:
    """Raises `ValueError` or `IndexError` where it ends too early."""
    at = 0
    while at < len(data):
        tag, size, at = data[at], data[at + 1], at + 2
        if size & 0x80:
            count = size & 0x7F
            size, at = int.from_bytes(data[at : at + count], "big"), at + count
        if at + size > len(data):
            raise ValueError(f"cut off: tag={tag} bytes={size}")
        yield _Element(tag, data[at : at + size])
        at += size
