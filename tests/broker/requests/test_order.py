"""Changes that a client sends one behind the other on a connection are made in that order."""

from logstore.wire.errors import ErrorCode
from logstore.wire.framing.apis import decode_response_header, encode_request_frame
from logstore.wire.framing.client import Connection
from logstore.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from logstore.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.running import Running
from tools.full_wire import APIS

CREATE, DELETE, TIMEOUT_MS = 19, 20, 30_000


def test_a_topic_is_made_again_behind_its_deletion(running: Running, client: Connection) -> None:
    running.create_topic("again", 1)
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState("again")], timeout_ms=TIMEOUT_MS)
    creation = CreateTopicsRequest([CreatableTopic("again", 1, 1)], TIMEOUT_MS)
    frames = b"".join(
        b"".join(encode_request_frame(number, APIS[key], version, "me", request))
        for number, (key, version, request) in enumerate(
            [(DELETE, 6, deletion), (CREATE, 7, creation)] * 3
        )
    )
    client.send_raw(frames)  # type: ignore[attr-defined]

    for number in range(3):
        deleted = APIS[DELETE].decode_response(6, *_body(client, DELETE, 6))
        created = APIS[CREATE].decode_response(7, *_body(client, CREATE, 7))
        assert [one.error_code for one in deleted.responses] == [ErrorCode.NONE], number
        assert [one.error_code for one in created.topics] == [ErrorCode.NONE], number


def _body(client: Connection, key: int, version: int) -> tuple[memoryview, int]:
    frame = client.read_frame()  # type: ignore[attr-defined]
    _, at = decode_response_header(frame, APIS[key], version)
    return frame, at
