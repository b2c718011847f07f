"""A JoinGroup or SyncGroup that waits for the group, until it is answered or its client is gone."""

from collections.abc import Callable
from typing import Any

from broker.groups.coordinator import Coordinator
from broker.groups.decisions.outcome import Answer
from broker.network.call import Call
from logstore.wire.errors import ErrorCode


class HeldCall:
    """A `coordinator.Token`. `respond` makes the message that the version of `call` wants."""

    __slots__ = ("_call", "_coordinator", "_group_id", "_refuse", "_respond")

    def __init__(
        self,
        call: Call,
        coordinator: Coordinator,
        group_id: str,
        respond: Callable[[Any], Any],
        refuse: Callable[[ErrorCode], Answer],
    ) -> None:
        self._call = call
        self._coordinator = coordinator
        self._group_id = group_id
        self._respond = respond
        self._refuse = refuse
        call.held = self

    def send(self, answer: Answer) -> None:
        self._call.answer(self._respond(answer))

    def finish(self) -> None:
        """The broker stops: another one will coordinate the group."""
        self.send(self._refuse(ErrorCode.NOT_COORDINATOR))

    def drop(self) -> None:
        """The connection is gone."""
        self._coordinator.lost(self._group_id, self)
