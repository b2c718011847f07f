"""A broker of consumer groups that answers what a test says, and keeps what it was asked."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from logstore.wire.errors import ErrorCode
from logstore.wire.framing.apis import APIS, decode_request_header, encode_frame
from logstore.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from logstore.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from logstore.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

API_VERSIONS, FIND_COORDINATOR, OFFSET_COMMIT = 18, 10, 8


class ScriptedBroker:
    """`find_error` and `commit_error` are answered from now on; `commits` are what came.

    While `speaks` is not set it answers nothing; `was_asked` is set when it should have.
    """

    def __init__(self, port: int, find_version_max: int) -> None:
        self.address = "127.0.0.1", port
        self.find_version_max = find_version_max
        self.find_error = self.commit_error = ErrorCode.NONE
        self.speaks, self.was_asked = threading.Event(), threading.Event()
        self.speaks.set()
        self.finds = 0
        self.commits: list[OffsetCommitRequest] = []

    def answer(self, key: int, request: Any) -> Any:
        self.was_asked.set()
        self.speaks.wait()
        if key == API_VERSIONS:
            keys = [
                ApiVersion(API_VERSIONS, 0, 4),
                ApiVersion(FIND_COORDINATOR, 0, self.find_version_max),
                ApiVersion(OFFSET_COMMIT, 2, 9),
            ]
            return ApiVersionsResponse(0, keys)
        if key == FIND_COORDINATOR:
            return self._find(request.coordinator_keys)
        self.commits.append(request)
        topics = [
            OffsetCommitResponseTopic(
                topic.name,
                partitions=[
                    OffsetCommitResponsePartition(one.partition_index, self.commit_error)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return OffsetCommitResponse(0, topics)

    def _find(self, keys: list[str]) -> FindCoordinatorResponse:
        self.finds += 1
        found = [Coordinator(key, 1, *self.address, self.find_error, None) for key in keys]
        return FindCoordinatorResponse(0, coordinators=found)


@contextmanager
def scripted_broker(*, find_version_max: int = 6) -> Iterator[ScriptedBroker]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while size := self.rfile.read(4):
                frame = memoryview(self.rfile.read(int.from_bytes(size)))
                key, version, correlation_id, _, at = decode_request_header(frame)
                api = APIS[key]
                request = api.decode_request(version, frame, at)
                answer = broker.answer(key, request)
                for buffer in encode_frame(correlation_id, api, version, answer):
                    self.wfile.write(buffer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        broker = ScriptedBroker(server.server_address[1], find_version_max)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield broker
        finally:
            broker.speaks.set()
            server.shutdown()
            thread.join()
