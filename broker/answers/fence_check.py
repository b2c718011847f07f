"""Fencing check before definitive answers (a read index): verify that our chain is not sealed.

A broker that was fenced may not have noticed yet. Its definitive answers, "there is no such
offset", "your sequence is wrong", may be wrong by then, and clients act on them: they jump to
another offset, or give up. So it checks that its chain is not sealed before such an answer and,
when its read lease may have run out, before every answer to a read (safety rule 9).
"""

import asyncio

from broker.answers.error_codes import code_of
from logstore.epoch.log import Log
from logstore.errors import LogstoreError, OutcomeUnknown
from logstore.wire.errors import ErrorCode

CHECK_TIMEOUT_S = 30.0

FenceCheck = ErrorCode | None
"""None: not checked yet. NONE: not sealed when it was checked. Else the code to answer."""


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
