"""The head of an HTTP request, and its possible faults. Pure.

    GET /metrics HTTP/1.1 | name: value | ... | empty line

Only what a few pages need. Deliberately missing: bodies, queries, a second request on a connection.
"""

import re
from typing import NamedTuple

from logstore.errors import Invalid

HEAD_BYTES_MAX = 8 * 1024
HEADERS_MAX = 100
END = b"\r\n\r\n"

_LINE = re.compile(rb"([A-Za-z]{1,16}) ([!-~]{1,2048}) HTTP/1\.([01])")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\0\r\n]*?)[ \t]*")


class BadRequest(Invalid):
    """`status` is what HTTP calls it."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class HttpHead(NamedTuple):
    path: str
    host: str | None
    """Its `Host` header; HTTP/1.0 may have none, and browsers always have one."""


def parse_head(head: bytes) -> HttpHead:
    """Returns what a request asks for, from its bytes up to the empty line.

    Raises `BadRequest`: 400 for bytes that are not HTTP/1, 405 for every method but GET.
    """
    line, *headers = head.split(b"\r\n")
    match = _LINE.fullmatch(line)
    if match is None:
        raise BadRequest(400, "not a request of HTTP/1")
    method, target, minor = match.groups()
    hosts = _hosts(headers)
    if method != b"GET":
        raise BadRequest(405, "only GET is served here")
    if len(hosts) > 1 or (minor == b"1" and not hosts):
        raise BadRequest(400, "one Host header is needed")
    return HttpHead(target.decode("ascii"), hosts[0].decode("latin-1") if hosts else None)


def _hosts(headers: list[bytes]) -> list[bytes]:
    """Returns the values of all Host headers; every header is checked."""
    if len(headers) > HEADERS_MAX:
        raise BadRequest(431, "too many headers")
    hosts = []
    for header in headers:
        match = _HEADER.fullmatch(header)
        if match is None:
            raise BadRequest(400, "a header is not of the form name: value")
        name, value = match[1].lower(), match[2]
        if name == b"transfer-encoding" or (name == b"content-length" and value != b"0"):
            raise BadRequest(400, "a request body is not accepted")
        if name == b"host":
            hosts.append(value)
    return hosts
