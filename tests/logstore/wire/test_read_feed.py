"""Our own request between brokers: its bytes, and what is not one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.wire.framing.apis import PRIVATE_APIS
from logstore.wire.primitives import DecodeError
from logstore.wire.read_feed import READ_FEED_KEY, ReadFeedRequest, ReadFeedResponse

API = PRIVATE_APIS[READ_FEED_KEY]
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def encoded(table: str, message: object) -> bytes:
    out = API.table(table)[0](message, bytearray(), [])
    return bytes(out)


def test_its_bytes_are_those_of_the_page() -> None:
    assert encoded("ENCODE_REQUEST", ReadFeedRequest(258)) == bytes(6) + b"\x01\x02"
    assert encoded("ENCODE_RESPONSE", ReadFeedResponse(31, 258)) == b"\0\x1f" + bytes(6) + b"\1\2"


@given(INT64, st.integers(-(1 << 15), (1 << 15) - 1))
def test_what_is_encoded_is_decoded(version: int, code: int) -> None:
    request = API.decode_request(0, encoded("ENCODE_REQUEST", ReadFeedRequest(version)))
    response = API.decode_response(0, encoded("ENCODE_RESPONSE", ReadFeedResponse(code, version)))

    assert request.version == version
    assert (response.error_code, response.version) == (code, version)


@given(st.binary(max_size=7))
def test_too_few_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        API.decode_request(0, data)
    with pytest.raises(DecodeError):
        API.decode_response(0, data)
