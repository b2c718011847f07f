"""Takes a decoded request its way: rights, fencing check, handler, encoding, answer, letting go.

    way, handle → begin(broker, call, request)          one of these for each row of the table

A handler returns its response, and knows none of that. Errors of logstore end the connection of the
call alone, except `Refuse`, which is answered. Work on a closed connection ends at its next turn; a
task, which may be about changes, goes on.
"""

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

from broker.answers.broker import Broker
from broker.answers.decisions.refuse import Refuse
from broker.network.authorizer import CLUSTER
from broker.network.call import Call
from broker.network.turns import ClientGone, Slicing
from broker.requests.encoding import encode_long, encode_small
from broker.requests.fencing import check_after, check_before
from broker.requests.freeing import let_go
from broker.requests.refusals import refused
from broker.requests.steps import Steps
from broker.requests.way import (
    Answering,
    Begin,
    By,
    ClusterRight,
    Handler,
    LeaseCheck,
    Loop,
    Order,
    Plain,
    Way,
)
from logstore.wire.errors import ErrorCode

_IN_ORDER = Way(Loop.COROUTINE, By.RESOURCE, Order.KEPT, None, LeaseCheck.NONE)


def begin_by(way: Way, handle: Plain | Handler) -> Begin:
    """Returns what begins a request that goes this way."""
    served = _Served(way, handle)
    return served.begin_plain if way.loop is Loop.PLAIN else served.begin


class _Served:
    def __init__(self, way: Way, handle: Any) -> None:
        self._way = way
        self._handle = handle
        self._is_leased = way.lease is not LeaseCheck.NONE
        self._right = way.rights if isinstance(way.rights, ClusterRight) else None
        self._is_plain = way.loop is Loop.PLAIN

    def begin_plain(self, broker: Broker, call: Call, request: Any) -> None:
        if self._is_leased and not broker.log.has_read_lease:
            self.begin(broker, call, request)
            return
        try:
            self._check_right(broker, call)
            response = self._handle(broker, call, request)
        except Refuse as refusal:
            response = refused(call.api, call.version, refusal)
        if response is not None:
            call.answer(response)

    def begin(self, broker: Broker, call: Call, request: Any) -> None:
        serve = self._serve_large if call.is_large else self._serve
        must_wait = self._is_leased and not broker.log.has_read_lease
        _begin(broker, call, partial(serve, broker, call, request), self._way, must_wait)

    async def _serve(self, broker: Broker, call: Call, request: Any) -> None:
        if self._is_leased:
            await check_before(broker)
        was_fenced = broker.log.fenced.is_set()
        try:
            self._check_right(broker, call)
            response = self._handle(broker, call, request)
            if not self._is_plain:
                response = await response
        except Refuse as refusal:
            response = refused(call.api, call.version, refusal)
        if response is None:  # it is answered later
            return
        buffers = encode_small(call, response)
        if buffers is None:
            buffers = await call.finish(encode_long(call, response))
        if self._way.lease is LeaseCheck.AROUND and not was_fenced:
            await check_after(broker)
        call.answer_bytes(buffers)

    async def _serve_large(self, broker: Broker, call: Call, request: Any) -> None:
        """The same for a request with many items, which are let go of whatever happens."""
        failure: Exception | None = None
        try:
            await self._serve(broker, call, request)
        except Exception as error:  # noqa: BLE001 - raised again
            failure = error
        await broker.turns.finish(let_go(request))
        if failure is not None:
            raise failure

    def _check_right(self, broker: Broker, call: Call) -> None:
        right = self._right
        if right is not None and not broker.allows(call, right.operation, *CLUSTER):
            raise Refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, right.refusal)


def begin_in_order(broker: Broker, call: Call, begin: Callable[[], Answering]) -> None:
    """For a plain handler: goes on as the coroutine of `begin`, which answers the call itself.

    Later requests of the connection wait until it is done.
    """
    _begin(broker, call, begin, _IN_ORDER, must_wait=False)


def _begin(
    broker: Broker, call: Call, begin: Callable[[], Answering], way: Way, must_wait: bool
) -> None:
    is_task = way.loop is Loop.TASK
    # A change that has begun goes on when its client is gone.
    call.slicing = Slicing(broker.turns, None if is_task else call.connection)
    call.keeps_order = way.order is Order.KEPT
    steps = Steps(begin, call, broker.clients, broker.loop.time)
    # The task of its decoding ends when this returns, so a large request gets its own, too.
    if not (is_task or must_wait or call.is_large) and not steps.first():
        return
    if call.keeps_order:
        call.connection.suspend_requests()
    place = None if way.place is None else attrgetter(way.place.value)(broker)
    broker.start(call, partial(_finish, call, steps), place)


async def _finish(call: Call, steps: Steps) -> None:
    try:
        await steps
    except ClientGone:
        pass
    finally:
        call.let_later_begin()
