"""All that differs between APIs on the way from a request to its answer."""

from collections.abc import Callable, Coroutine
from enum import Enum, auto
from typing import Any, NamedTuple

from broker.answers.broker import Broker
from broker.network.authorizer import Operation
from broker.network.call import Call

Begin = Callable[[Broker, Call, Any], None]
Plain = Callable[[Broker, Call, Any], Any]
"""Returns the response, or None if it answers the call later."""
Answering = Coroutine[Any, Any, Any]
Handler = Callable[[Broker, Call, Any], Answering]
"""Returns the response. Raises `Refuse` for the request as a whole."""


class By(Enum):
    RESOURCE = auto()
    """The handler asks for a right on each resource that it is asked about."""
    NOTHING = auto()
    """Every client may."""


class ClusterRight(NamedTuple):
    operation: Operation
    refusal: str
    """Text of the error, for a response that has a place for one."""


class Order(Enum):
    FREE = auto()
    """Later requests of the connection begin while this one waits; answers keep their order."""
    KEPT = auto()
    """They wait: both may change the same state."""


class Place(Enum):
    """Semaphores of `Broker`, by the path to them."""

    CHANGES = "changes"
    SIZES = "sizes.turn"


class LeaseCheck(Enum):
    NONE = auto()
    """The answer says nothing that a successor may contradict, it waits for a commit, or the
    handler makes a fencing check where it needs one."""
    BEFORE = auto()
    """Without a read lease a fencing check comes first (safety rule 9)."""
    AROUND = auto()
    """As well before the answer leaves, if the lease ran out since: it was put together over many
    turns of the loop."""


class Loop(Enum):
    OWN = auto()
    """The handler's business: a task or a future for each small request would cost too much."""
    PLAIN = auto()
    COROUTINE = auto()
    TASK = auto()


class Way(NamedTuple):
    loop: Loop
    rights: ClusterRight | By
    order: Order
    place: Place | None
    lease: LeaseCheck
