"""Metadata responses put together from topics that were encoded before.

    response   ... | count of topics | topics | tail

The tail is what follows the topics, in every version of fixed size: cluster authorized operations
(int32, versions 8 to 10), the error code (int16, 13), an empty tag section (from 9 on). So a
response without topics shows where they go.
"""

from logstore.wire.apis import APIS, encode_frame
from logstore.wire.messages.metadata import MetadataResponse, MetadataResponseTopic
from logstore.wire.primitives import Buffer, encode_varint

API = APIS[3]
FLEXIBLE_FROM = 9
TAIL_BYTES = {**dict.fromkeys(range(8), 0), 8: 4, 9: 5, 10: 5, 11: 1, 12: 1, 13: 3}
KEPT_MAX = 20_000

_EMPTY = MetadataResponse()


class MetadataBytes:
    """Encoded topics by id and version. What is kept here must not change while a topic lives."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, int], bytes] = {}

    def get(self, topic_id: bytes, version: int) -> bytes | None:
        return self._known.get((topic_id, version))

    def keep(self, topic_id: bytes, version: int, topic: MetadataResponseTopic) -> bytes:
        if len(self._known) >= KEPT_MAX:
            self._known.clear()
        encoded = self._known[topic_id, version] = self.encode(version, topic)
        return encoded

    def encode(self, version: int, topic: MetadataResponseTopic) -> bytes:
        whole = _body(version, MetadataResponse(topics=[topic]))
        tail = TAIL_BYTES[version]
        front = len(_body(version, _EMPTY)) - tail
        return whole[front : len(whole) - tail]


def frame_with_topics(
    correlation_id: int, version: int, response: MetadataResponse, topics: list[bytes]
) -> list[Buffer]:
    """The frame of `response`, which has no topics, with `topics`."""
    frame = b"".join(encode_frame(correlation_id, API, version, response))
    tail_at = len(frame) - TAIL_BYTES[version]
    if version < FLEXIBLE_FROM:
        front_end, count = tail_at - 4, len(topics).to_bytes(4, "big")
    else:
        front_end, count = tail_at - 1, encode_varint(len(topics) + 1)
    whole = b"".join((bytes(4), frame[4:front_end], count, *topics, frame[tail_at:]))
    return [(len(whole) - 4).to_bytes(4, "big"), memoryview(whole)[4:]]


def _body(version: int, response: MetadataResponse) -> bytes:
    parts: list[Buffer] = []
    API.encode_response(version, response, parts)
    return b"".join(parts)
