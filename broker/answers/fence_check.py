"""Fencing check before definitive answers (a read index): verify that our chain is not sealed.

A broker that was fenced may not have noticed yet. Its definitive answers, "there is no such
offset", "your sequence is wrong", may be wrong by then, and clients act on them: they jump to
another offset, or give up. So it checks that its chain is not sealed before such an answer and,
when its read lease may have run out, before every answer to a read (safety rule 9).
"""

import asyncio
from collections.abc import Callable
from functools import partial

from broker.answers.error_codes import code_of
from broker.answers.services import Services
from broker.network.call import Call
from logstore.epoch.log import Log
from logstore.errors import LogstoreError, OutcomeUnknown
from logstore.slices import Slices
from logstore.wire.errors import ErrorCode

CHECK_TIMEOUT_S = 30.0

FenceCheck = ErrorCode | None
"""None: not checked yet. NONE: not sealed when it was checked. Else the code to answer."""

Attempt = Callable[[FenceCheck], Slices[bool]]
"""Answers a call and returns True; returns False if a check must come first (never with a code)."""


async def check_not_sealed(log: Log) -> LogstoreError | None:
    """The error to answer with, if this broker may no longer answer for its partitions."""
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            await log.check_not_sealed()
    except TimeoutError:
        return OutcomeUnknown("the fencing check timed out")
    except LogstoreError as error:
        return error
    return None


async def fence_check_of(log: Log) -> ErrorCode:
    error = await check_not_sealed(log)
    return ErrorCode.NONE if error is None else code_of(error)


def answer_after_fence_check(broker: Services, call: Call, attempt: Attempt) -> None:
    """Let `attempt` answer: at once where it may, else after a fencing check."""
    broker.turns.begin(call, _try_first(broker, call, attempt))


def _try_first(broker: Services, call: Call, attempt: Attempt) -> Slices[None]:
    if not (broker.log.has_read_lease and (yield from attempt(None))):
        broker.start(call, partial(_attempt, broker, attempt), broker.store_reads)


async def _attempt(broker: Services, attempt: Attempt) -> None:
    await broker.turns.finish(attempt(await fence_check_of(broker.log)))
