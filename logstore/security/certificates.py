"""Certificates in DER: when they end, and their subject as Java prints it. Pure.

By RFC 5280, 4.1:

    certificate   SEQUENCE { signed, … }
    signed        SEQUENCE { [0] version?, serial, algorithm, issuer, validity, subject, … }
    validity      SEQUENCE { not before, not after }
    times         UTCTime YYMMDDhhmmssZ, from 2050 on GeneralizedTime YYYYMMDDhhmmssZ
    subject       SEQUENCE of SET of SEQUENCE { object identifier, string }

Each element is a tag, a length (of one byte, or 0x80 + n and n bytes), and its content. A subject
is written as `X500Principal.getName()` of Java does (RFC 2253), which Kafka makes principals of:
the last part first, few types by their names, others as their object identifier and `#` with the
bytes.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from logstore.errors import Corrupt

VERSION_TAG, UTC_TIME = 0xA0, 0x17
_FORMS = {UTC_TIME: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
_VALIDITY, _SUBJECT = 3, 4
_TYPES = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_STRINGS = {
    0x0C: "utf-8",
    0x13: "latin-1",
    0x14: "latin-1",
    0x16: "latin-1",
    0x1B: "latin-1",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
"""Encodings by tag: UTF8String, PrintableString, T61, IA5, General, Universal, BMPString."""
_ESCAPED = ',=+<>#;"\\'


class _Element(NamedTuple):
    tag: int
    content: memoryview
    whole: memoryview


def not_after_ms(certificate: bytes) -> int:
    """When it ends, by the wall clock. Raises `Corrupt` for bytes that are no certificate."""
    try:
        _, end = _elements(_fields(certificate)[_VALIDITY].content)
        text = bytes(end.content).decode()
        moment = datetime.strptime(text, _FORMS[end.tag]).replace(tzinfo=UTC)
    except (ValueError, IndexError, KeyError, StopIteration) as error:
        raise Corrupt(f"not a certificate: bytes={len(certificate)}") from error
    return int(moment.timestamp() * 1000)


def subject(certificate: bytes) -> str:
    """The subject's distinguished name, as Java prints it. Raises `Corrupt`."""
    try:
        names = list(_elements(_fields(certificate)[_SUBJECT].content))
        return ",".join(
            "+".join(_attribute(one) for one in _elements(name.content)) for name in reversed(names)
        )
    except (ValueError, IndexError, StopIteration) as error:
        raise Corrupt(f"not a certificate: bytes={len(certificate)}") from error


def _fields(certificate: bytes) -> list[_Element]:
    (whole,) = _elements(memoryview(certificate))
    signed = next(_elements(whole.content))
    return [one for one in _elements(signed.content) if one.tag != VERSION_TAG]


def _attribute(attribute: _Element) -> str:
    kind, value = _elements(attribute.content)
    identifier = _identifier(kind.content)
    name, encoding = _TYPES.get(identifier), _STRINGS.get(value.tag)
    if name is None or encoding is None:
        return f"{name or identifier}=#{value.whole.hex()}"
    return f"{name}={_escaped(bytes(value.content).decode(encoding))}"


def _escaped(text: str) -> str:
    escaped = "".join(f"\\{one}" if one in _ESCAPED else one for one in text)
    escaped = escaped.replace("\0", "\\00")
    inner = escaped.strip(" \r")
    if not inner:
        return "".join(f"\\{one}" for one in escaped)
    before, after = escaped.split(inner, 1)
    return _each_escaped(before) + inner + _each_escaped(after)


def _each_escaped(spaces: str) -> str:
    return "".join(f"\\{one}" for one in spaces)


def _identifier(content: memoryview) -> str:
    """Numbers of seven bits a byte; the first two in one number."""
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _elements(data: memoryview) -> Iterator[_Element]:
    """Raises `ValueError` or `IndexError` where it ends too early."""
    at = 0
    while at < len(data):
        begin = at
        tag, size, at = data[at], data[at + 1], at + 2
        if size & 0x80:
            count = size & 0x7F
            size, at = int.from_bytes(data[at : at + count], "big"), at + count
        if at + size > len(data):
            raise ValueError(f"cut off: tag={tag} bytes={size}")
        yield _Element(tag, data[at : at + size], data[begin : at + size])
        at += size
