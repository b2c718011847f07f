"""Kafka's API keys: which versions we have bytes for, headers, and whole frames.

    request   size int32 | api key int16 | version int16 | correlation id int32 | client id | body
    response  size int32 | correlation id int32 | body

The client id is a nullable string with an int16 length in every header version. From an API's first
flexible version on, a tag section follows the client id of requests and the correlation id of
responses; ApiVersions responses never have it, so that any client can read them (KIP-511).

    # frame: a memoryview of what follows the size
    key, version, correlation_id, client_id, at = decode_request_header(frame)
    api = APIS[key]                     # KeyError: a key we have no messages for
    request = api.decode_request(version, frame, at)
    buffers = encode_frame(correlation_id, api, version, response)   # size included

A decoded request keeps memoryviews of `frame` in its `records` fields and copies all else: a pooled
frame may be used again when the records are done with. Messages are classes of
`logstore.wire.messages.<module>`, one for all versions: decoding sets fields the version lacks to
their default, encoding leaves them out. A tagged struct that is absent is None.

On hot paths build messages by position, or set attributes: Python pays four times as much for a
class called with keywords.

`index` says what can be encoded and decoded: requests are decoded and responses encoded in every
version from `version_min` to `version_max`, requests are encoded and responses decoded in
`versions_sent` alone, those of our own client. What a broker advertises is the broker's decision.
Message modules are imported when first used.
"""

import importlib
from collections.abc import Mapping, Sequence
from struct import Struct, error
from typing import Any, Final

from logstore.errors import Invalid
from logstore.wire.adopt import ADOPT_KEY
from logstore.wire.messages import index
from logstore.wire.primitives import (
    ARRAY_COUNT_MAX,
    Array,
    Buffer,
    DecodeError,
    Encode,
    skip_tags,
)
from logstore.wire.read_feed import READ_FEED_KEY

API_VERSIONS_KEY: Final = 18

_REQUEST_HEAD = Struct(">hhih")
_RESPONSE_HEAD = Struct(">ii")
_RESPONSE_HEAD_FLEXIBLE = Struct(">iix")

UNENCODABLE = (error, ValueError, TypeError, AttributeError)
"""Errors of generated encoders for a value that the version cannot carry."""


class Api:
    """One API key: its versions, and decode and encode of its messages."""

    __slots__ = (
        "_decode_request",
        "_decode_response",
        "_encode_request",
        "_encode_response",
        "_response_arrays",
        "flexible_from",
        "key",
        "module",
        "name",
        "package",
        "version_max",
        "version_min",
        "versions_sent",
    )

    def __init__(
        self,
        key: int,
        module: str,
        name: str,
        version_min: int,
        version_max: int,
        flexible_from: int | None,
        versions_sent: Sequence[int],
        package: str = "logstore.wire.messages",
    ) -> None:
        self.key = key
        self.module = module
        self.package = package
        self.name = name
        self.version_min = version_min
        self.version_max = version_max
        self.flexible_from = flexible_from
        self.versions_sent = versions_sent
        self._decode_request = _Versions(self, "DECODE_REQUEST")
        self._encode_request = _Versions(self, "ENCODE_REQUEST")
        self._decode_response = _Versions(self, "DECODE_RESPONSE")
        self._encode_response = _Versions(self, "ENCODE_RESPONSE")
        self._response_arrays: Mapping[int, tuple[Array, ...]] | None = None

    def is_flexible(self, version: int) -> bool:
        """Also for versions beyond ours: ApiVersions must answer those."""
        return self.flexible_from is not None and version >= self.flexible_from

    def newest_sent(self, low: int, high: int) -> int | None:
        """The newest version of our client within `low` to `high`, both included."""
        return max((v for v in self.versions_sent if low <= v <= high), default=None)

    def table(self, name: str) -> Mapping[int, Any]:
        """The functions of one direction by version; `name` is DECODE_REQUEST, ENCODE_REQUEST, …"""
        module = importlib.import_module(f"{self.package}.{self.module}")
        table: dict[int, Any] = getattr(module, name)
        return table

    def decode_request(
        self, version: int, buf: Buffer, at: int = 0, count_max: int = ARRAY_COUNT_MAX
    ) -> Any:
        """The request that starts at byte `at`; bytes after it are ignored, as Kafka does.

        `count_max` bounds every single array. Raises `DecodeError` for anything malformed,
        `Invalid` for a version outside `version_min` to `version_max`.
        """
        return self._decode_request[version](buf, at, len(buf), count_max)[0]

    def decode_response(
        self, version: int, buf: Buffer, at: int = 0, count_max: int = ARRAY_COUNT_MAX
    ) -> Any:
        """As `decode_request`, but trailing bytes are an error: they betray a broker's mistake.

        Raises `Invalid` for a version that is not in `versions_sent`.
        """
        response, stop = self._decode_response[version](buf, at, len(buf), count_max)
        if stop != len(buf):
            raise DecodeError(f"{self.name} v{version} response ends at byte={stop} of {len(buf)}")
        return response

    def response_encoder(self, version: int) -> Encode[Any]:
        """Returns the generated function for responses; raises `Invalid` as `encode_response`."""
        encode: Encode[Any] = self._encode_response[version]
        return encode

    def response_arrays(self, version: int) -> tuple[Array, ...]:
        """Returns the arrays of a response that a client can make long, in the order of bytes."""
        if self._response_arrays is None:
            module = importlib.import_module(f"{self.package}.{self.module}")
            self._response_arrays = getattr(module, "RESPONSE_ARRAYS", {})
        return self._response_arrays.get(version, ())

    def response_head(self, version: int, correlation_id: int) -> bytearray:
        """Returns the first bytes of a response's frame, with a size of zero."""
        is_flexible = self.is_flexible(version) and self.key != API_VERSIONS_KEY
        head = _RESPONSE_HEAD_FLEXIBLE if is_flexible else _RESPONSE_HEAD
        return bytearray(head.pack(0, correlation_id))

    def encode_response(self, version: int, response: Any, parts: list[Buffer]) -> None:
        """Append the buffers of `response` to `parts`: small fields gathered, large records as is.

        Raises `Invalid` for a value that the version cannot carry.
        """
        _encode(self._encode_response[version], response, bytearray(), parts)


class _Versions(dict[int, Any]):
    """One table of an API by version, empty until it is first needed."""

    def __init__(self, api: Api, table: str) -> None:
        super().__init__()
        self._api = api
        self._table = table

    def __missing__(self, version: int) -> Any:
        self.update(self._api.table(self._table))
        codec = self.get(version)
        if codec is None:
            what = self._table.lower().replace("_", " ")
            raise Invalid(f"cannot {what}: no such version: api={self._api.name} version={version}")
        return codec


APIS: Final[dict[int, Api]] = {row[0]: Api(*row) for row in index.APIS}

PRIVATE_APIS: Final[dict[int, Api]] = {
    ADOPT_KEY: Api(ADOPT_KEY, "adopt", "Adopt", 0, 0, None, (0,), "logstore.wire"),
    READ_FEED_KEY: Api(READ_FEED_KEY, "read_feed", "ReadFeed", 0, 0, None, (0,), "logstore.wire"),
}
"""Our own, which ApiVersions does not list. They have no tags: none of their versions is flexible,
so a request of one is sent with its version named (`Connection.call`)."""

_NEVER = 1 << 16
_FLEXIBLE_FROM = {
    key: _NEVER if a.flexible_from is None else a.flexible_from for key, a in APIS.items()
}


def decode_request_header(frame: memoryview) -> tuple[int, int, int, str | None, int]:
    """(api key, version, correlation id, client id, where the body starts); raises `DecodeError`.

    `frame` is what follows the size. Keys and versions we do not have are not an error here.
    """
    try:
        key, version, correlation_id, length = _REQUEST_HEAD.unpack_from(frame)
        at = _REQUEST_HEAD.size
        client_id = None
        if length != -1:
            stop = at + length
            if not at <= stop <= len(frame):
                raise ValueError(f"client id length={length} bytes_left={len(frame) - at}")
            client_id = frame[at:stop].tobytes().decode()
            at = stop
        if version >= _FLEXIBLE_FROM.get(key, _NEVER):
            at = skip_tags(frame, at, len(frame)) if frame[at] else at + 1
    except (error, IndexError, ValueError) as failure:
        raise DecodeError(
            f"cannot decode request header of {len(frame)} bytes: {failure}"
        ) from None
    return key, version, correlation_id, client_id, at


def encode_request_frame(
    correlation_id: int, api: Api, version: int, client_id: str | None, request: Any
) -> list[Buffer]:
    """A whole request, size included, for a client to send; `version` is in `api.versions_sent`.

    Raises `Invalid` for another version, and for a value that the version cannot carry.
    """
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    out = bytearray(4)
    try:
        out += _REQUEST_HEAD.pack(api.key, version, correlation_id, length)
    except error as failure:
        raise Invalid(f"cannot encode header of {api.name} v{version} request: {failure}") from None
    out += name
    if api.is_flexible(version):
        out.append(0)
    return _frame(api._encode_request[version], request, out)


def decode_response_header(frame: memoryview, api: Api, version: int) -> tuple[int, int]:
    """(correlation id, where the body starts); raises `DecodeError`."""
    try:
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        if len(frame) < 4:
            raise IndexError("the bytes end too early")
        if api.key == API_VERSIONS_KEY or not api.is_flexible(version):
            return correlation_id, 4
        return correlation_id, skip_tags(frame, 4, len(frame))
    except (IndexError, ValueError) as failure:
        raise DecodeError(
            f"cannot decode response header of {len(frame)} bytes: {failure}"
        ) from None


def encode_frame(correlation_id: int, api: Api, version: int, response: Any) -> list[Buffer]:
    """A whole response, size included, in the fewest buffers: one, plus two per large record set.

    Hand to `writelines` or `sendmsg` as they are. Raises `Invalid` as `Api.encode_response` does.
    """
    flexible = api.is_flexible(version) and api.key != API_VERSIONS_KEY
    head = _RESPONSE_HEAD_FLEXIBLE if flexible else _RESPONSE_HEAD
    return _frame(api._encode_response[version], response, bytearray(head.pack(0, correlation_id)))


def _frame(encode: Any, message: Any, out: bytearray) -> list[Buffer]:
    """Encode behind the head in `out`, then put the size into the first four bytes."""
    parts: list[Buffer] = []
    _encode(encode, message, out, parts)
    size = len(out) if len(parts) == 1 else sum(map(len, parts))
    out[:4] = (size - 4).to_bytes(4, "big")
    return parts


def _encode(encode: Any, message: Any, out: bytearray, parts: list[Buffer]) -> None:
    try:
        last = encode(message, out, parts)
    except UNENCODABLE as failure:
        raise unencodable(failure, message, encode) from failure
    if last:
        parts.append(last)


def unencodable(failure: Exception, message: Any, encode: Any) -> Invalid:
    """Returns the error for `failure` of a generated encoder."""
    return Invalid(f"cannot encode {type(message).__name__} ({encode.__name__}): {failure}")
