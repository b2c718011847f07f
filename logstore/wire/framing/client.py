"""A small blocking Kafka client: one connection, one request at a time, for tools and tests.

    with Connection.open("127.0.0.1", 9092, timeout_s=5) as connection:
        response = connection.call(3, MetadataRequest(topics=None))

It knows no metadata, retries nothing and follows no redirect. What went wrong decides the error:
`Retryable` if the request did not leave whole, `OutcomeUnknown` if it did and may have been acted
on, `Invalid` if the peer does not speak the version or its bytes make no sense. A failure on the
wire closes the connection: an answer that comes late would be taken for the next one's.
"""

import socket
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, Final, Self

from logstore.errors import Invalid, OutcomeUnknown, Retryable
from logstore.ports.clock import Clock, SystemClock
from logstore.version import VERSION
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.apis import (
    API_VERSIONS_KEY,
    APIS,
    PRIVATE_APIS,
    Api,
    decode_response_header,
    encode_request_frame,
)
from logstore.wire.framing.client_security import PLAIN, ClientSecurity
from logstore.wire.messages.api_versions import ApiVersionsRequest
from logstore.wire.primitives import Buffer

FRAME_BYTES_MAX: Final = 100 * 1024 * 1024
"""Kafka's own default for `socket.request.max.bytes`; a larger size means it is not Kafka."""

_READ_BYTES = 256 * 1024
_CORRELATION_IDS = 1 << 31
_CLIENT_SOFTWARE = "logstore"
_CLIENT_VERSION = VERSION


class Connection:
    """A connection to one broker. `timeout_s` bounds each call as a whole. Not thread-safe."""

    apis: ClassVar[Mapping[int, Api]] = {**APIS, **PRIVATE_APIS}
    """APIs that it can send: `versions_sent` of each. Of our own ones, which no broker lists, the
    version is to be named."""

    def __init__(
        self,
        peer: socket.socket,
        timeout_s: float,
        *,
        client_id: str | None = "logstore",
        frame_bytes_max: int = FRAME_BYTES_MAX,
        clock: Clock | None = None,
    ) -> None:
        self.client_id = client_id
        self.versions: dict[int, tuple[int, int]] = {}
        """Versions of the broker, by key: (min, max). Empty before `negotiate` or `call`."""
        self._peer = peer
        self._timeout_s = timeout_s
        self._frame_bytes_max = frame_bytes_max
        self._clock = clock or SystemClock()
        self._correlation_id = 0

    @classmethod
    def open(
        cls,
        host: str,
        port: int,
        timeout_s: float = 10.0,
        *,
        client_id: str | None = "logstore",
        security: ClientSecurity = PLAIN,
    ) -> Self:
        """Connect; the versions are asked for at the first call. Raises `Retryable`, and what a
        login raises.
        """
        try:
            peer = socket.create_connection((host, port), timeout_s)
        except OSError as failure:
            raise Retryable(f"cannot connect to {host}:{port}: {failure}") from failure
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = cls(security.secure(peer, host, port), timeout_s, client_id=client_id)
        if security.login is not None:
            try:
                security.login(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    @property
    def is_closed(self) -> bool:
        return self._peer.fileno() < 0

    def close(self) -> None:
        self._peer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def negotiate(self) -> dict[int, tuple[int, int]]:
        """Ask for the broker's versions, falling back once as KIP-511 says; kept in `versions`."""
        api = self._api(API_VERSIONS_KEY)
        request = ApiVersionsRequest(_CLIENT_SOFTWARE, _CLIENT_VERSION)
        response = self._exchange(api, api.version_max, request)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            served = {item.api_key: item for item in response.api_keys}.get(API_VERSIONS_KEY)
            version = api.newest_sent(0, served.max_version) if served else 0
            response = self._exchange(api, version or 0, request)
        if response.error_code:
            raise Invalid(f"broker refuses ApiVersions: error={_error_name(response.error_code)}")
        self.versions = {
            item.api_key: (item.min_version, item.max_version) for item in response.api_keys
        }
        return self.versions

    def version(self, key: int) -> int:
        """The newest version of `key` that both sides speak; raises `Invalid` if there is none."""
        api = self._api(key)
        low, high = (self.versions or self.negotiate()).get(key, (0, -1))
        newest = api.newest_sent(low, high)
        if newest is None:
            raise Invalid(
                f"no common version of {api.name}: broker={low}-{high} "
                f"ours={','.join(map(str, api.versions_sent)) or 'none'}"
            )
        return newest

    def call(self, key: int, request: Any, version: int | None = None) -> Any:
        """Send `request` and wait for its response; without `version`, the newest common one."""
        chosen = self.version(key) if version is None else version
        return self._exchange(self._api(key), chosen, request)

    def _api(self, key: int) -> Api:
        api = self.apis.get(key)
        if api is None:
            raise Invalid(f"no messages for api_key={key}")
        return api

    def _exchange(self, api: Api, version: int, request: Any) -> Any:
        self._correlation_id = (self._correlation_id + 1) % _CORRELATION_IDS
        frame = encode_request_frame(self._correlation_id, api, version, self.client_id, request)
        deadline = self._deadline()
        try:
            self._send(frame, deadline)
            return self._decode(api, version, self._read_frame(deadline))
        except BaseException:
            self.close()
            raise

    def _decode(self, api: Api, version: int, frame: memoryview) -> Any:
        correlation_id, at = decode_response_header(frame, api, version)
        if correlation_id != self._correlation_id:
            raise Invalid(
                f"broker answered another request: correlation_id={correlation_id} "
                f"expected={self._correlation_id}"
            )
        if api.key == API_VERSIONS_KEY and frame[at : at + 2] == _UNSUPPORTED_VERSION:
            return api.decode_response(0, frame, at)  # always in the oldest form: KIP-511
        return api.decode_response(version, frame, at)

    def _send(self, buffers: Sequence[Buffer], deadline: float) -> None:
        """A request that does not leave whole is never acted on: all failures are `Retryable`."""
        try:
            for buffer in buffers:
                view = memoryview(buffer)
                while view:
                    self._peer.settimeout(self._left(deadline))
                    view = view[self._peer.send(view) :]
        except OSError as failure:
            raise Retryable(f"cannot send to the broker: {failure}") from failure

    def _read_frame(self, deadline: float) -> memoryview:
        size = int.from_bytes(self._read(4, deadline), "big", signed=True)
        if not 0 <= size <= self._frame_bytes_max:
            raise Invalid(f"frame size out of range: size={size} max={self._frame_bytes_max}")
        return memoryview(self._read(size, deadline)).toreadonly()

    def _read(self, size: int, deadline: float) -> bytearray:
        """Exactly `size` bytes; memory grows with what arrives, not with what was announced."""
        data = bytearray()
        try:
            while len(data) < size:
                self._peer.settimeout(self._left(deadline))
                piece = self._peer.recv(min(size - len(data), _READ_BYTES))
                if not piece:
                    raise ConnectionResetError("broker closed the connection")
                data += piece
        except OSError as failure:
            raise OutcomeUnknown(
                f"no answer, bytes_read={len(data)} of {size}: {failure}"
            ) from failure
        return data

    def _deadline(self) -> float:
        return self._clock.monotonic_s() + self._timeout_s

    def _left(self, deadline: float) -> float:
        left = deadline - self._clock.monotonic_s()
        if left <= 0:
            raise TimeoutError("timed out")
        return left


_UNSUPPORTED_VERSION = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


def _error_name(code: int) -> str:
    return ErrorCode(code).name if code in ErrorCode._value2member_map_ else str(code)
