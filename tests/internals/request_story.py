"""The story of a DeleteGroups: one that is answered at once, and one that waits for its commit."""

import asyncio

from broker.answers.broker import Broker, Work
from broker.groups.decisions.group_partition import OFFSETS_TOPIC
from broker.groups.decisions.offsets import OffsetCommit
from broker.handlers.dispatch import dispatch
from broker.network.authorizer import AllowAll
from broker.network.call import Call
from broker.network.connection import ClientConnection
from broker.network.listeners import bind, parse_address
from logstore.config.broker import BrokerSettings
from logstore.testing.virtual_loop import VirtualClock
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.apis import decode_response_header, encode_request_frame
from logstore.wire.messages.delete_groups import DeleteGroupsRequest
from logstore.wire.messages.list_groups import ListGroupsRequest
from logstore.wire.primitives import ZERO_UUID
from tests.internals.recording import Transcript
from tests.logstore.waits import until
from tests.logstore.written import WrittenLog
from tools.full_wire import APIS

DELETE_GROUPS, LIST_GROUPS = 42, 16
VERSIONS = {DELETE_GROUPS: 2, LIST_GROUPS: 4}


async def requests(transcript: Transcript, written: WrittenLog) -> None:
    async with (
        written.life(clean=False, runner=transcript.runner) as log,
        asyncio.TaskGroup() as tasks,
    ):
        broker = _RecordedBroker(
            log,
            BrokerSettings({}),
            authorizer=AllowAll(),
            clock=VirtualClock(),
            dispatch=_recorded_dispatch,
            tasks=tasks,
        )
        broker.lines = transcript.lines
        await log.create_topic(OFFSETS_TOPIC, 1, {})
        await until(lambda: bool(broker.groups.loaded()))
        transcript.lines.clear()
        client = _Client(broker)
        transcript.say("no group of that name is there: answered in the step that read the request")
        client.sends((DELETE_GROUPS, DeleteGroupsRequest(["none"])))
        transcript.say("a group with an offset, and a request behind it")
        await _commit(broker, "billing")
        client.sends(
            (DELETE_GROUPS, DeleteGroupsRequest(["billing", "none"])),
            (LIST_GROUPS, ListGroupsRequest()),
        )
        await until(lambda: client.answered == 3)
        client.leaves()
        broker.stop()


def _recorded_dispatch(broker: Broker, connection: ClientConnection, frame: memoryview) -> None:
    assert isinstance(broker, _RecordedBroker)
    broker.lines.append(f"begins  {APIS[int.from_bytes(frame[:2], 'big')].name}")
    dispatch(broker, connection, frame)


async def _commit(broker: Broker, group: str) -> None:
    (coordinator,) = broker.groups.loaded()
    coordinator.commit(group, [OffsetCommit(("orders", 0), ZERO_UUID, 42, -1, "")], -1)
    codes: list[ErrorCode] = []
    coordinator.when_safe(codes.append)
    await until(lambda: bool(codes))


class _RecordedBroker(Broker):
    """Writes down which requests become tasks."""

    lines: list[str]

    def start(self, call: Call, work: Work, turn: asyncio.Semaphore | None) -> None:
        self.lines.append(f"task    {call.api.name}  the rest of it")
        super().start(call, work, turn)


class _Client(asyncio.Transport):
    """A client, and the broker's end of its connection; both sides write down what passes."""

    def __init__(self, broker: _RecordedBroker) -> None:
        super().__init__({"peername": ("client", 1), "sockname": ("broker", 9092)})
        self.answered = 0
        self._lines = broker.lines
        self._sent: list[int] = []
        listener = bind(parse_address("127.0.0.1:0"), None)
        listener.socket.close()
        self._connection = ClientConnection(broker.clients, listener)
        self._connection.connection_made(self)

    def sends(self, *requests: tuple[int, object]) -> None:
        """Requests that arrive together."""
        frames = b""
        for key, request in requests:
            number = len(self._sent)
            self._sent.append(key)
            frames += b"".join(
                encode_request_frame(number, APIS[key], VERSIONS[key], "me", request)
            )
            self._lines.append(f"arrives {APIS[key].name}")
        self._connection.get_buffer(-1)[: len(frames)] = frames
        self._connection.buffer_updated(len(frames))
        self._lines.append("end of the step")

    def leaves(self) -> None:
        self._connection.connection_lost(None)

    # What the broker calls

    def write(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        while view:
            frame = view[4 : 4 + int.from_bytes(view[:4], "big")]
            view = view[4 + len(frame) :]
            key = self._sent[self.answered]
            self.answered += 1
            _, at = decode_response_header(frame, APIS[key], VERSIONS[key])
            response = APIS[key].decode_response(VERSIONS[key], frame, at)
            self._lines.append(f"answer  {APIS[key].name}  {_shown(response)}")

    def pause_reading(self) -> None:
        self._lines.append("later requests wait")

    def resume_reading(self) -> None:
        self._lines.append("later requests may begin")

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == 0, low

    def is_closing(self) -> bool:
        return False


def _shown(response: object) -> str:
    results = getattr(response, "results", None)
    if results is None:
        groups = [group.group_id for group in getattr(response, "groups", ())]
        return f"groups={','.join(groups) or 'none'}"
    return "  ".join(f"{one.group_id}: {ErrorCode(one.error_code).name}" for one in results)
