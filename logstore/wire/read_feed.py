"""ReadFeed, version 0: our own request, by which a broker has another read the change feed now.

Its key lies outside Kafka's range, and ApiVersions does not list it. The answer leaves when the
broker has read the feed up to that version, applied what it read, and retired its leaders of topics
that are gone; or with a lower version, if it could not (`broker.handlers.read_feed`).

    request    feed version int64
    response   error code int16 | feed version int64 that the broker knows

Integers are big-endian. Encoded and decoded as generated messages are: tables by version below.
"""

from struct import Struct
from typing import Final

from logstore.wire.primitives import UNREADABLE, Buffer, Decode, Encode, Message, unreadable

READ_FEED_KEY: Final = 0x4C02

_VERSION = Struct(">q")
_RESPONSE = Struct(">hq")


class ReadFeedRequest(Message):
    __slots__ = ("version",)

    def __init__(self, version: int = 0) -> None:
        self.version = version


class ReadFeedResponse(Message):
    __slots__ = ("error_code", "version")

    def __init__(self, error_code: int = 0, version: int = 0) -> None:
        self.error_code = error_code
        self.version = version


def _decode_request(data: Buffer, at: int, end: int, count_max: int) -> tuple[ReadFeedRequest, int]:
    request = ReadFeedRequest.__new__(ReadFeedRequest)
    try:
        (request.version,) = _VERSION.unpack_from(data, at)
    except UNREADABLE as failure:
        raise unreadable(failure, at, request) from None
    return request, at + _VERSION.size


def _decode_response(
    data: Buffer, at: int, end: int, count_max: int
) -> tuple[ReadFeedResponse, int]:
    response = ReadFeedResponse.__new__(ReadFeedResponse)
    try:
        response.error_code, response.version = _RESPONSE.unpack_from(data, at)
    except UNREADABLE as failure:
        raise unreadable(failure, at, response) from None
    return response, at + _RESPONSE.size


def _encode_request(request: ReadFeedRequest, out: bytearray, parts: list[Buffer]) -> bytearray:
    out += _VERSION.pack(request.version)
    return out


def _encode_response(response: ReadFeedResponse, out: bytearray, parts: list[Buffer]) -> bytearray:
    out += _RESPONSE.pack(response.error_code, response.version)
    return out


DECODE_REQUEST: dict[int, Decode[ReadFeedRequest]] = {0: _decode_request}
ENCODE_REQUEST: dict[int, Encode[ReadFeedRequest]] = {0: _encode_request}
DECODE_RESPONSE: dict[int, Decode[ReadFeedResponse]] = {0: _decode_response}
ENCODE_RESPONSE: dict[int, Encode[ReadFeedResponse]] = {0: _encode_response}
