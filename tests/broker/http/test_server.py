"""The small HTTP server: which answers it gives, and what it does not put up with."""

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from broker.http.decisions.places import ASKERS_MAX, NEWCOMERS_MAX
from broker.http.server import Answer, HttpPage, HttpServer
from broker.network.listeners import Listener, bind, parse_address
from tests.broker.http.pages import ask
from tests.broker.running import DEADLINE_S, Running

LATER: list[Answer] = []


def breaks(answer: Answer) -> None:
    raise ZeroDivisionError("canary")


@pytest.fixture
def server(running: Running) -> Iterator[HttpServer]:
    routes = {
        "/page": lambda answer: answer(HttpPage(200, b"text\n")),
        "/later": LATER.append,
        "/breaks": breaks,
        "/healthz": lambda answer: answer(HttpPage(200, b"healthy\n")),
    }
    loop = running.broker.loop
    made = running.do(lambda: HttpServer(loop, routes, probes={"/healthz"}, names={"log.example"}))
    yield made
    running.do(made.close)
    LATER.clear()


@pytest.fixture
def listener(running: Running, server: HttpServer) -> Listener:
    bound = bind(parse_address("127.0.0.1:0"), None, "--http")
    running.wait_for(server.listen(bound.socket))
    return bound


def open_to(listener: Listener) -> socket.socket:
    return socket.create_connection(("127.0.0.1", listener.port), DEADLINE_S)


def all_of(sock: socket.socket) -> bytes:
    received = b""
    while more := sock.recv(65536):
        received += more
    return received


def test_a_page_has_its_length_is_not_kept_and_ends_the_connection(listener: Listener) -> None:
    status, headers, body = ask(listener.port, "/page")
    assert (status, body, headers["Content-Length"]) == (200, "text\n", "5")
    assert headers["Cache-Control"] == "no-store"
    assert headers["Connection"] == "close"


@pytest.mark.parametrize("path", ["/", "/page/", "/page?a=b", "/PAGE", "//page", "*", "/pag%65"])
def test_only_whole_paths_are_served(listener: Listener, path: str) -> None:
    assert ask(listener.port, path).status == 404


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "DELETE", "OPTIONS", "CONNECT"])
def test_only_get_is_served(listener: Listener, method: str) -> None:
    status, headers, _ = ask(listener.port, "/page", method)
    assert (status, headers["Allow"]) == (405, "GET")


def test_a_fault_is_a_500_that_does_not_tell_what_it_was(listener: Listener) -> None:
    status, _, body = ask(listener.port, "/breaks")
    assert status == 500
    assert "canary" not in body


def test_a_head_that_never_ends_is_refused(listener: Listener) -> None:
    with closing(open_to(listener)) as sock:
        sock.sendall(b"GET /page HTTP/1.0\r\n" + b"A: b\r\n" * 1400)
        assert all_of(sock).startswith(b"HTTP/1.1 431 ")


def test_a_head_may_come_in_pieces_and_what_follows_it_is_not_read(listener: Listener) -> None:
    with closing(open_to(listener)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"GET /page HTTP/1.0\r\n\r":
            sock.sendall(bytes([byte]))
        sock.sendall(b"\nGET /page HTTP/1.0\r\n\r\n")
        assert all_of(sock).count(b"HTTP/1.1 200 OK") == 1


def test_who_asks_nothing_is_sent_away(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.http.server.HEAD_S", 0.05)
    with closing(open_to(listener)) as sock:
        assert all_of(sock).startswith(b"HTTP/1.1 408 ")


def test_who_gets_no_answer_in_time_is_cut_off(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.http.server.WHOLE_S", 0.05)
    with closing(open_to(listener)) as sock:
        sock.sendall(b"GET /later HTTP/1.0\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            assert all_of(sock) == b""
            raise ConnectionResetError  # an end is as good as a reset
    assert len(LATER) == 1


def test_a_late_answer_to_who_has_left_is_dropped(
    running: Running, server: HttpServer, listener: Listener
) -> None:
    with closing(open_to(listener)) as sock:
        sock.sendall(b"GET /later HTTP/1.0\r\n\r\n")
        running.wait_until(lambda: len(LATER) == 1)
    running.do(next(iter(server.connections)).abort)
    running.wait_until(lambda: not server.connections)
    running.do(lambda: LATER[0](HttpPage(200, b"late")))
    assert ask(listener.port, "/page").status == 200


def test_probes_are_answered_while_strangers_hold_slow_connections(
    running: Running, server: HttpServer, listener: Listener
) -> None:
    held = [open_to(listener) for _ in range(NEWCOMERS_MAX)]
    running.wait_until(lambda: len(server.connections) == NEWCOMERS_MAX)
    assert [ask(listener.port, "/healthz").status for _ in range(23)] == [200] * 23
    held[-1].sendall(b"GET /page HTTP/1.0\r\n\r\n")
    assert all_of(held[-1]).startswith(b"HTTP/1.1 200 ")
    for sock in held:
        sock.close()


def test_probes_are_answered_while_all_pages_are_waited_for(
    running: Running, listener: Listener
) -> None:
    held = [open_to(listener) for _ in range(ASKERS_MAX)]
    for sock in held:
        sock.sendall(b"GET /later HTTP/1.0\r\n\r\n")
    running.wait_until(lambda: len(LATER) == ASKERS_MAX)
    assert ask(listener.port, "/page").status == 503
    assert ask(listener.port, "/healthz").status == 200
    running.do(lambda: LATER[0](HttpPage(200, b"text")))
    assert all_of(held[0]).startswith(b"HTTP/1.1 200 ")
    assert ask(listener.port, "/page").status == 200
    for sock in held:
        sock.close()


def test_the_longest_silent_connection_leaves_for_a_new_one(
    running: Running, server: HttpServer, listener: Listener
) -> None:
    held = [open_to(listener) for _ in range(NEWCOMERS_MAX + 1)]
    with pytest.raises(ConnectionResetError):
        assert all_of(held[0]) == b""
        raise ConnectionResetError  # an end is as good as a reset
    running.wait_until(lambda: len(server.connections) == NEWCOMERS_MAX)
    for sock in held:
        sock.close()


@pytest.mark.parametrize(
    "host", ["127.0.0.1:9644", "[::1]", "localhost:1", "LOG.example.", "10.1.2.3"]
)
def test_a_page_is_read_by_an_address_or_a_given_name(listener: Listener, host: str) -> None:
    assert ask_as(listener, host, b"/page").startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[::1", "a@::1"])
def test_a_name_that_was_not_given_reads_nothing(listener: Listener, host: str) -> None:
    answer = ask_as(listener, host, b"/page")
    assert answer.startswith(b"HTTP/1.1 421 ")
    assert b"logstore.http.hosts" in answer
    assert ask_as(listener, host, b"/healthz").startswith(b"HTTP/1.1 200 ")


def ask_as(listener: Listener, host: str, path: bytes) -> bytes:
    with closing(open_to(listener)) as sock:
        sock.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: " + host.encode() + b"\r\n\r\n")
        return all_of(sock)
