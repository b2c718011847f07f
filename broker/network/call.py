"""One request on its way through the broker, and the place of its answer among its connection's.

A handler answers at once or keeps the call and answers later; answers leave in the order of the
requests, so a call that waits holds back those behind it (Kafka's clients rely on the order).
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from broker.network.decisions.referrals import Referrals
from broker.network.listeners import Listener
from broker.network.login_state import LoginState
from broker.network.software import Software
from logstore.errors import LogstoreError
from logstore.slices import Slices
from logstore.wire.framing.apis import Api, encode_frame
from logstore.wire.primitives import Buffer

NO_ANSWER: Sequence[Buffer] = ()
FETCH_KEY = 1

T = TypeVar("T")

logger = logging.getLogger(__name__)


class PendingAnswer(Protocol):
    """The object that keeps a call waiting."""

    def finish(self) -> None:
        """Answer now with what there is: the broker stops."""
        ...

    def drop(self) -> None:
        """Forget it: the answer will not be read."""
        ...


class Ending(Protocol):
    """State of a connection that ends with it."""

    def end(self) -> None: ...


class Requester(Protocol):
    """The connection that a request came on (`connection.Connection`)."""

    listener: Listener
    principal: str
    groups: tuple[str, ...]
    login: LoginState | None
    """None: the listener asks for no login."""
    """Principals `Group:…` that its login named."""
    peer: str
    peer_host: str
    local_host: str
    active_s: float
    unsent_bytes: int
    referrals: Referrals
    fetch_session: Ending | None
    """The last one that it opened."""

    @property
    def is_closed(self) -> bool: ...

    @property
    def descriptor(self) -> int | None: ...

    def admitted(self) -> None: ...

    def abort(self) -> None: ...

    def answered(self, call: "Call", /) -> None: ...

    def refuse(self, why: str, /) -> None: ...

    def note_errors(self, api: str, response: Any, /) -> None: ...

    def count_errors(self, api: str, codes: Mapping[int, int], /) -> None: ...

    def set_software(self, software: Software, /) -> None: ...

    def suspend_requests(self) -> None: ...

    def resume_requests(self) -> None: ...

    def hold_back_throttled(self) -> None: ...

    def time_throttle_ms(self, call: "Call", /) -> int: ...


class Sharing(Protocol):
    """Turns on the event loop (`turns.Slicing`)."""

    def each(self, items: Iterable[T], /) -> AsyncIterator[T]: ...

    def finish(self, slices: Slices[T], /) -> Awaitable[T]: ...


class Call:
    __slots__ = (
        "api",
        "began_s",
        "buffers",
        "client_id",
        "connection",
        "correlation_id",
        "held",
        "is_large",
        "keeps_order",
        "slicing",
        "throttle_ms",
        "version",
    )

    slicing: Sharing
    keeps_order: bool
    """Whether later requests of its connection wait for it. Both are set for coroutines alone."""

    def __init__(
        self,
        connection: Requester,
        api: Api,
        version: int,
        correlation_id: int,
        client_id: str | None,
    ) -> None:
        self.connection = connection
        self.api = api
        self.began_s = connection.active_s
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.buffers: Sequence[Buffer] | None = None
        """The answer's frame; None while there is none."""
        self.held: PendingAnswer | None = None
        self.is_large = False
        """Whether it was decoded in a thread: its items are let go of some at a time."""
        self.throttle_ms: int | None = None
        """How long its connection is not read once it is answered; None: not decided yet."""

    @property
    def principal(self) -> str:
        return self.connection.principal

    def each(self, items: Iterable[T]) -> AsyncIterator[T]:
        """`async for item in call.each(items)`: others have their turn every few milliseconds.

        Ends with `turns.ClientGone`, which no handler catches, when the connection is closed,
        unless the work goes on all the same.
        """
        return self.slicing.each(items)

    def finish(self, slices: Slices[T]) -> Awaitable[T]:
        """The result of `slices`; the same as `each` for work that goes in slices."""
        return self.slicing.finish(slices)

    def let_later_begin(self) -> None:
        """Later requests of the connection, which wait for this one, have nothing to wait for now.

        For handlers that have changed what they change, and wait for it to be committed.
        """
        if self.keeps_order:
            self.keeps_order = False
            self.connection.resume_requests()

    def answer(self, response: Any) -> None:
        """Encode and queue the response; does nothing when there is one already."""
        if self.buffers is not None:
            return
        self.say_throttle(response)
        try:
            buffers = encode_frame(self.correlation_id, self.api, self.version, response)
        except LogstoreError as error:
            self.fail(f"cannot answer: {error}")
            return
        self.note_errors(response)
        self.answer_bytes(buffers)

    def say_throttle(self, response: Any) -> int:
        """How long the client is throttled, in `response` too, which is to be encoded."""
        if self.throttle_ms is None:
            self.throttle_ms = self.connection.time_throttle_ms(self)
        if self.throttle_ms and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = self.throttle_ms
        return self.throttle_ms

    def note_errors(self, response: Any) -> None:
        """Count the error codes of an answer. Not of Fetch: its handler says which parts failed."""
        if self.api.key != FETCH_KEY:
            self.connection.note_errors(self.api.name, response)

    def count_errors(self, codes: Mapping[int, int]) -> None:
        """Count so many of each error code, of an answer whose items are encoded by themselves."""
        self.connection.count_errors(self.api.name, codes)

    def answer_bytes(self, buffers: Sequence[Buffer]) -> None:
        """Queue a whole frame that is encoded already, or `NO_ANSWER`."""
        if self.buffers is None:
            self.buffers = buffers
            self.held = None
            self.connection.answered(self)

    def fail(self, why: str) -> None:
        """No answer is possible: close the connection, which tells the client to look again."""
        self.connection.refuse(f"{self.describe()}: {why}")

    def fail_by_fault(self, error: Exception) -> None:
        """A fault of the broker's own ends this connection, and nothing else."""
        logger.error("request failed: %s", self.describe(), exc_info=error)
        self.fail(f"fault in the broker: {type(error).__name__}")

    def describe(self) -> str:
        return f"api={self.api.name} version={self.version} client_id={self.client_id}"


def guard(call: Call, step: Callable[[], None]) -> None:
    """Take a step of `call`; an exception ends its connection, and nothing else."""
    try:
        step()
    except LogstoreError as error:
        call.fail(str(error))
    except Exception as error:  # noqa: BLE001 - logged, and ends one connection
        call.fail_by_fault(error)
