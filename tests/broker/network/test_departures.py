"""A peer that has gone is noticed without reading, also behind bytes that nothing has read."""

import socket
import sys

import pytest

from broker.network.departures import left_by_their_clients

NEEDS_LINUX = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux says that a peer has closed its side"
)


class Peer:
    def __init__(self, server: socket.socket, client: socket.socket) -> None:
        self.server, self.client = server, client

    @property
    def descriptor(self) -> int | None:
        number = self.server.fileno()
        return number if number >= 0 else None

    def close(self) -> None:
        self.server.close()
        self.client.close()


def connected() -> Peer:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        return Peer(server, client)


@NEEDS_LINUX
def test_those_that_went_are_named_and_no_others() -> None:
    here, sends, gone, half, sent_and_gone, closed = peers = [connected() for _ in range(6)]
    sends.client.sendall(b"bytes that wait")
    sent_and_gone.client.sendall(b"bytes that wait")
    sent_and_gone.client.close()
    gone.client.close()
    half.client.shutdown(socket.SHUT_WR)
    closed.server.close()
    for peer in (gone, half):
        assert peer.server.recv(1, socket.MSG_PEEK) == b"", "the end has arrived"
    assert sent_and_gone.server.recv(1, socket.MSG_PEEK) == b"b"
    left = []
    while sent_and_gone not in left:  # loopback brings its end behind its bytes
        left = left_by_their_clients(peers)
    assert {*map(id, left)} == {id(gone), id(half), id(sent_and_gone)}
    assert left_by_their_clients([closed]) == left_by_their_clients([]) == []
    assert left_by_their_clients([here, sends]) == []
    for peer in peers:
        peer.close()
