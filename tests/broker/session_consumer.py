"""A client in a fetch session, which names partitions only when a test does."""

from collections.abc import Sequence
from typing import Any

from logstore.wire.framing.apis import decode_response_header, encode_request_frame
from logstore.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from tests.broker.running import FETCH
from tools.full_wire import APIS, Connection


class SessionConsumer:
    """`topic_id` of zeros: by name, in version 12."""

    def __init__(self, connection: Connection, topic: str, topic_id: bytes = bytes(16)) -> None:
        self.connection = connection
        self.topic = topic
        self.topic_id = topic_id
        self.session = (0, 0)
        self.version = 12 if topic_id == bytes(16) else 13

    def open(self, count: int) -> list[PartitionData]:
        return self.fetch(*(FetchPartition(n, partition_max_bytes=1 << 20) for n in range(count)))

    def fetch(self, *named: FetchPartition, **fields: Any) -> list[PartitionData]:
        self.send(*named, **fields)
        response = self.receive()
        assert response.error_code == 0
        return [one for topic in response.responses for one in topic.partitions]

    def fetch_at(self, offset: int, partition: int = 0) -> list[PartitionData]:
        asked = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        return self.fetch(asked)

    def refused(self, session: tuple[int, int], version: int = 12) -> tuple[int, int]:
        self.session, self.version = session, version
        self.send()
        response = self.receive()
        return response.error_code, response.session_id

    def send(
        self,
        *named: FetchPartition,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        forgotten: Sequence[int] = (),
    ) -> None:
        request = FetchRequest(-1, max_wait_ms, min_bytes, max_bytes)
        request.session_id, request.session_epoch = self.session
        if named:
            request.topics = [FetchTopic(self.topic, self.topic_id, list(named))]
        if forgotten:
            request.forgotten_topics_data = [
                ForgottenTopic(self.topic, self.topic_id, list(forgotten))
            ]
        frame = encode_request_frame(5, APIS[FETCH], self.version, "me", request)
        self.connection.send_raw(b"".join(frame))

    def receive(self) -> FetchResponse:
        frame = memoryview(self.connection.read_frame())
        _, at = decode_response_header(frame, APIS[FETCH], self.version)
        response: FetchResponse = APIS[FETCH].decode_response(self.version, frame, at)
        if not response.error_code:
            self.session = (response.session_id, self.session[1] + 1)
        return response


def numbers(answers: list[PartitionData]) -> list[int]:
    return [one.partition_index for one in answers]
