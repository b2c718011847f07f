"""The blocking client against a scripted broker on a loopback socket."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from logstore.errors import Invalid, OutcomeUnknown, Retryable
from logstore.ports.clock import SystemClock
from logstore.wire.framing import client
from logstore.wire.framing.apis import APIS, decode_request_header, encode_frame
from logstore.wire.messages import api_versions, metadata
from logstore.wire.primitives import DecodeError
from tools.full_wire import Connection

VERSIONS = api_versions.ApiVersionsResponse(
    api_keys=[api_versions.ApiVersion(3, 0, 12), api_versions.ApiVersion(0, 14, 20)]
)
METADATA = metadata.MetadataResponse(cluster_id="c1", controller_id=1)
Answer = Callable[[memoryview], bytes]


class LateClock(SystemClock):
    """Each look at the clock is an hour later, so every deadline has passed."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic_s(self) -> float:
        self._now += 3600.0
        return self._now


class SignalledClock(SystemClock):
    """A signal ends the third look: the request has left, its answer has not come."""

    def __init__(self) -> None:
        self._looks = 0

    def monotonic_s(self) -> float:
        self._looks += 1
        if self._looks == 3:
            raise KeyboardInterrupt
        return super().monotonic_s()


@contextmanager
def broker(*answers: Answer) -> Iterator[Connection]:
    """A connection to a broker that gives these answers in turn, then closes."""
    with served(*answers) as (host, port), Connection.open(host, port, timeout_s=10) as connection:
        yield connection


@contextmanager
def served(*answers: Answer) -> Iterator[tuple[str, int]]:
    """Where a broker gives these answers in turn to one connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_serve, args=(server, answers))
        thread.start()
        try:
            yield server.getsockname()
        finally:
            thread.join(10)


def test_a_call_negotiates_the_newest_common_version() -> None:
    with broker(versions, answer(METADATA)) as connection:
        assert connection.call(3, metadata.MetadataRequest(topics=None)) == METADATA
        assert connection.version(3) == 12
        assert connection.versions == {3: (0, 12), 0: (14, 20)}


def test_a_version_can_be_asked_for_without_negotiation() -> None:
    with broker(answer(METADATA)) as connection:
        assert connection.call(3, metadata.MetadataRequest(), version=8) == METADATA
        assert connection.versions == {}


def test_an_old_broker_is_asked_again_in_the_version_it_named() -> None:
    refusal = api_versions.ApiVersionsResponse(
        error_code=35, api_keys=[api_versions.ApiVersion(18, 0, 2)]
    )
    seen = []

    def refuse(frame: memoryview) -> bytes:
        _, version, correlation_id, _, _ = decode_request_header(frame)
        seen.append(version)
        return b"".join(encode_frame(correlation_id, APIS[18], 0, refusal))

    def accept(frame: memoryview) -> bytes:
        seen.append(decode_request_header(frame)[1])
        return versions(frame)

    with broker(refuse, accept) as connection:
        assert 3 in connection.negotiate()
    assert seen == [4, 2]


def test_our_client_asks_an_old_broker_again_in_the_oldest_version() -> None:
    refusal = api_versions.ApiVersionsResponse(
        error_code=35, api_keys=[api_versions.ApiVersion(18, 0, 2)]
    )
    seen = []

    def reply(frame: memoryview) -> bytes:
        _, version, correlation_id, _, _ = decode_request_header(frame)
        seen.append(version)
        return b"".join(encode_frame(correlation_id, APIS[18], 0, [VERSIONS, refusal][version > 2]))

    with served(reply, reply) as address, client.Connection.open(*address) as connection:
        assert 3 in connection.negotiate()
    assert seen == [4, 0]


def test_our_client_refuses_a_version_that_it_does_not_send() -> None:
    with served(versions) as address, client.Connection.open(*address) as connection:
        with pytest.raises(Invalid, match=r"no common version of Metadata: broker=0-12 ours=13$"):
            connection.call(3, metadata.MetadataRequest())
        with pytest.raises(Invalid, match=r"no common version of Heartbeat: .* ours=none"):
            connection.call(12, metadata.MetadataRequest())
        with pytest.raises(Invalid, match="cannot encode request: no such version: api=Metadata"):
            connection.call(3, metadata.MetadataRequest(), 12)


def test_no_common_version_and_unknown_keys_are_invalid() -> None:
    with broker(versions) as connection:
        with pytest.raises(Invalid, match="no common version of Produce: broker=14-20"):
            connection.version(0)
        with pytest.raises(Invalid, match="no common version of Fetch"):
            connection.version(1)
        with pytest.raises(Invalid, match="api_key=4242"):
            connection.version(4242)


def test_an_error_code_from_api_versions_is_invalid() -> None:
    refusal = api_versions.ApiVersionsResponse(error_code=42)
    with (
        broker(answer(refusal)) as connection,
        pytest.raises(Invalid, match="INVALID_REQUEST"),
    ):
        connection.negotiate()


def test_raw_bytes_and_frames_pass_as_they_are() -> None:
    with broker(lambda frame: b"\0\0\0\2" + bytes(frame[:2])) as connection:
        connection.send_raw(b"\0\0\0\3abc")
        assert bytes(connection.read_frame()) == b"ab"


def test_a_lost_connection_after_sending_is_an_unknown_outcome() -> None:
    with broker(lambda frame: b"\0\0\0\7\0") as connection:
        with pytest.raises(OutcomeUnknown, match="bytes_read=1 of 7"):
            connection.call(3, metadata.MetadataRequest(), version=1)
        with pytest.raises(Retryable):
            connection.call(3, metadata.MetadataRequest(), version=1)


def test_an_answer_that_does_not_come_in_time_is_an_unknown_outcome() -> None:
    ours, theirs = socket.socketpair()
    with (
        theirs,
        Connection(ours, 0.001) as connection,
        pytest.raises(OutcomeUnknown, match="timed"),
    ):
        connection.call(3, metadata.MetadataRequest(), version=1)


def test_a_call_that_a_signal_ended_closes_its_connection() -> None:
    ours, theirs = socket.socketpair()
    with theirs, Connection(ours, 10, clock=SignalledClock()) as connection:
        with pytest.raises(KeyboardInterrupt):
            connection.call(3, metadata.MetadataRequest(), version=1)
        assert theirs.recv(4), "the request has not left"
        assert connection.is_closed


def test_a_request_that_cannot_leave_in_time_is_retryable() -> None:
    ours, theirs = socket.socketpair()
    late = Connection(ours, 10, clock=LateClock())
    with theirs, late, pytest.raises(Retryable, match="timed out"):
        late.call(3, metadata.MetadataRequest(), version=1)


def test_a_refused_connection_is_retryable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
    with pytest.raises(Retryable, match="cannot connect"):
        Connection.open(host, port, timeout_s=5)


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\x16\x03\x01\x00"], ids=["-1", "tls"])
def test_an_impossible_frame_size_is_invalid_and_closes(size: bytes) -> None:
    with broker(lambda frame: size) as connection:
        with pytest.raises(Invalid, match="frame size"):
            connection.call(3, metadata.MetadataRequest(), version=1)
        with pytest.raises(Retryable):
            connection.send_raw(b"x")


@pytest.mark.parametrize(
    ("frame", "message"), [(b"\0\0\0\x63", "another request"), (b"\0\0\0\1\xff", "cannot decode")]
)
def test_an_answer_that_makes_no_sense_is_invalid_and_closes(frame: bytes, message: str) -> None:
    with broker(lambda _: len(frame).to_bytes(4, "big") + frame) as connection:
        with pytest.raises(Invalid, match=message):
            connection.call(3, metadata.MetadataRequest(), version=1)
        with pytest.raises(Retryable):
            connection.send_raw(b"x")


def answer(response: object) -> Answer:
    def reply(frame: memoryview) -> bytes:
        key, version, correlation_id, _, _ = decode_request_header(frame)
        return b"".join(encode_frame(correlation_id, APIS[key], version, response))

    return reply


versions = answer(VERSIONS)


def _serve(server: socket.socket, answers: tuple[Answer, ...]) -> None:
    server.settimeout(10)
    peer, _ = server.accept()
    with peer:
        peer.settimeout(10)
        for reply in answers:
            size = int.from_bytes(_read(peer, 4), "big")
            peer.sendall(reply(memoryview(_read(peer, size))))


def _read(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = peer.recv(size - len(data))
        if not piece:
            raise DecodeError("client closed the connection")
        data += piece
    return data
