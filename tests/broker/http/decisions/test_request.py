"""Heads of HTTP requests: what is taken, what is refused and how, whatever comes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.http.decisions.request import HEADERS_MAX, BadRequest, parse_head


def test_the_path_is_what_is_asked_for() -> None:
    assert parse_head(b"GET /metrics HTTP/1.1\r\nHost: here:1\r\nAccept: */*").path == "/metrics"
    assert parse_head(b"GET /healthz HTTP/1.0").path == "/healthz"
    assert parse_head(b"GET /a HTTP/1.1\r\nhost:x\r\nContent-Length: 0").path == "/a"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"", 400),
        (b"GET /metrics", 400),
        (b"GET /metrics HTTP/2.0", 400),
        (b"GET  /metrics HTTP/1.0", 400),
        (b"GET /me\ttrics HTTP/1.0", 400),
        (b"GET /metrics HTTP/1.1", 400),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nHost: b", 400),
        (b"GET /metrics HTTP/1.0\r\nno colon", 400),
        (b"GET /metrics HTTP/1.0\r\nName : value", 400),
        (b"GET /metrics HTTP/1.0\r\nA: b\r\n folded", 400),
        (b"GET /metrics HTTP/1.0\r\nA: b\nC: d", 400),
        (b"GET /metrics HTTP/1.0\r\nContent-Length: 5", 400),
        (b"GET /metrics HTTP/1.0\r\nTransfer-Encoding: chunked", 400),
        (b"POST /metrics HTTP/1.0", 405),
        (b"HEAD /metrics HTTP/1.0", 405),
        (b"get /metrics HTTP/1.0", 405),
        (b"GET / HTTP/1.0" + b"\r\nA: b" * (HEADERS_MAX + 1), 431),
        (b"GET /" + b"x" * 5000 + b" HTTP/1.0", 400),
    ],
)
def test_what_is_not_such_a_request_is_refused(head: bytes, status: int) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_head(head)
    assert caught.value.status == status


@given(st.binary(max_size=300) | st.binary(max_size=100).map(b"GET / HTTP/1.0\r\n".__add__))
def test_any_bytes_are_a_path_or_refused(head: bytes) -> None:
    try:
        path = parse_head(head).path
    except BadRequest as error:
        assert error.status in (400, 405, 431)
    else:
        assert path.isascii()
        assert path.isprintable()
