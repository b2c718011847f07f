"""Log lines about changes by clients: what was changed, by whom, from where.

    topic deleted: name=orders principal=User:alice peer=10.0.0.7:5123 client_id=admin

A change is logged once it is done, also where its client was answered before with a time-out.
Commits of offsets are logged only where a client outside its group sets a group back.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from broker.network.call import Call

PARTITIONS_SHOWN = 20
CHARACTERS_MAX = 1_000
"""Of one value: a client may give any length."""

logger = logging.getLogger(__name__)

T = TypeVar("T")

_WHO = " principal=%s peer=%s client_id=%s"


def log_change(call: Call, text: str, *values: object) -> None:
    """`text` has a place `name=%s` for each of `values`."""
    shown = (*values, call.principal, call.connection.peer, call.client_id)
    logger.info(text + _WHO, *map(_clipped, shown))


async def logged(begin: Callable[[], Awaitable[T]], call: Call, text: str, *values: object) -> T:
    """The result of what `begin` begins, logged as `log_change` does once it is there.

    It begins with the first step: a change that is given up before leaves nothing unawaited.
    """
    result = await begin()
    log_change(call, text, *values)
    return result


def listed(values: Mapping[int, object] | Sequence[int]) -> str:
    """`0:55,1:60` or `0,1`, the first few and how many more."""
    if isinstance(values, Mapping):
        texts = [f"{number}:{value}" for number, value in sorted(values.items())]
    else:
        texts = [str(number) for number in sorted(values)]
    more = len(texts) - PARTITIONS_SHOWN
    return ",".join(texts[:PARTITIONS_SHOWN]) + (f",... {more} more" if more > 0 else "")


def _clipped(value: object) -> object:
    return value[:CHARACTERS_MAX] if isinstance(value, str) else value
