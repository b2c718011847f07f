"""The table of served requests has a row for each API: which handler, and which way it goes.

    coroutine(42, delete_groups, By.RESOURCE, Order.KEPT, LeaseCheck.NONE)

`rights`   what the client needs: a right on the cluster, checked before the handler, or rights on
           the resources that the request names, checked by the handler
`order`    whether later requests of the connection wait until this one is done
`lease`    whether a broker that may have been fenced checks that before, or after as well
`place`    of a task: which semaphore it takes a place of while it runs

A row says all of it, so that no API can forget one. `broker.handlers.served_requests` is the table.
"""

from typing import NamedTuple

from broker.answers.decisions.budgets import BUDGETS
from broker.requests.runtime import begin_by
from broker.requests.way import (
    Begin,
    By,
    ClusterRight,
    Handler,
    LeaseCheck,
    Loop,
    Order,
    Place,
    Plain,
    Way,
)
from logstore.wire.framing.apis import APIS, PRIVATE_APIS, Api


class Row(NamedTuple):
    api: Api
    version_min: int
    version_max: int
    begin: Begin
    items_max: int
    way: Way


def plain(
    key: int, handle: Plain, rights: ClusterRight | By, order: Order, lease: LeaseCheck
) -> tuple[int, Row]:
    """A row of a handler that has done its part when it returns."""
    return _row(key, Way(Loop.PLAIN, rights, order, None, lease), handle)


def coroutine(
    key: int, handle: Handler, rights: ClusterRight | By, order: Order, lease: LeaseCheck
) -> tuple[int, Row]:
    """A row of a handler that mostly answers without a wait: no task is made before the first one.

    Until then it is in no task, so that neither a time-out nor a group of tasks can begin there.
    """
    return _row(key, Way(Loop.COROUTINE, rights, order, None, lease), handle)


def task(
    key: int,
    handle: Handler,
    rights: ClusterRight | By,
    order: Order,
    lease: LeaseCheck,
    place: Place | None,
) -> tuple[int, Row]:
    """A row of a handler that waits for the store, the registry or other requests."""
    return _row(key, Way(Loop.TASK, rights, order, place, lease), handle)


def by_itself(
    key: int, begin: Begin, rights: By, order: Order, lease: LeaseCheck
) -> tuple[int, Row]:
    """A row of a handler that goes its own way, as the row says, and answers its calls itself."""
    return key, _of(key, begin, Way(Loop.OWN, rights, order, None, lease))


def _row(key: int, way: Way, handle: Plain | Handler) -> tuple[int, Row]:
    return key, _of(key, begin_by(way, handle), way)


def _of(key: int, begin: Begin, way: Way) -> Row:
    api = APIS.get(key) or PRIVATE_APIS[key]
    return Row(api, api.version_min, api.version_max, begin, BUDGETS[key].items_max, way)
