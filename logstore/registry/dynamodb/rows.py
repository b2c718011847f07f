"""The registry in one DynamoDB table: asynchronous for brokers, blocking for Spark and tools.

The service decides conditions and orders rows; `registry.dynamodb_json.items` says how ours are
spelt. Reads are strongly consistent. A write whose condition fails is answered with the row as it
stands.

Two limits differ from the other back ends, far from what any row holds: an update is refused when
the row exceeds the service's 400 KiB, not our 400,000 bytes, and when it sets more than some 300
attributes at once.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, TypeVar

from logstore.errors import Invalid, LogstoreError, OutcomeUnknown, Retryable, Throttled
from logstore.ports.registry import Condition, Row
from logstore.registry.dynamodb.call_queue import CallQueue, PendingCall
from logstore.registry.dynamodb.client import DynamoClient
from logstore.registry.dynamodb.grouped_calls import GroupedReads, GroupedWrites
from logstore.registry.dynamodb_json.items import decode_item, encode_key
from logstore.registry.dynamodb_json.requests import Write, delete, put, query, update
from logstore.registry.verdicts import check_key, check_query

THREADS_MAX = 16
_WAITING_MAX = 10_000

_Answer = TypeVar("_Answer")
_Request = TypeVar("_Request")


class BlockingDynamoRows:
    """A `BlockingRowStore` on the table of `client`, for any number of threads."""

    def __init__(self, client: DynamoClient) -> None:
        self._client = client

    def get(self, pk: str, sk: str) -> Row | None:
        check_key(pk, sk)
        answer = self._client.call(
            "get_item", writes=False, Key=encode_key(pk, sk), ConsistentRead=True
        )
        item = answer.get("Item")
        return None if item is None else decode_item(item)[1]

    def query(
        self, pk: str, prefix: str = "", *, after: str | None = None, limit: int = 1000
    ) -> Sequence[tuple[str, Row]]:
        check_query(pk, prefix, after, limit)
        request = query(pk, prefix)
        if after is not None and after >= prefix:
            if not after.startswith(prefix):
                return []  # past everything that begins with the prefix
            if after:
                request["ExclusiveStartKey"] = encode_key(pk, after)
        rows: list[tuple[str, Row]] = []
        while len(rows) < limit:  # a page of the service ends at 1 MiB, whatever the limit
            answer = self._client.call(
                "query", writes=False, **request, Limit=limit - len(rows), ConsistentRead=True
            )
            rows += map(decode_item, answer.get("Items", ()))
            if not answer.get("LastEvaluatedKey"):
                break
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
        return rows

    def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self.write(put(pk, sk, row, conditions, write_id))

    def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self.write(update(pk, sk, sets, conditions, write_id))

    def delete_if(self, pk: str, sk: str, conditions: Sequence[Condition], write_id: str) -> None:
        self.write(delete(pk, sk, conditions))

    def write(self, write: Write) -> None:
        self._client.call(write.operation, writes=True, **write.request)

    def close(self) -> None:
        self._client.close()


class DynamoRows:
    """A `RowStore` on the table of `client`: up to `threads` requests at once, calls wait in turn.

    Calls made together are asked for together (`registry.dynamodb.grouped_calls`).

    A call that takes longer than `timeout_s` raises `Retryable` if it had not begun, else
    `OutcomeUnknown`. A cancelled call that had begun ends in the background.
    """

    def __init__(
        self, client: DynamoClient, *, threads: int = THREADS_MAX, timeout_s: float = 10.0
    ) -> None:
        assert 0 < threads <= THREADS_MAX
        self._rows = BlockingDynamoRows(client)
        self._timeout_s = timeout_s
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="registry")
        self._reads = GroupedReads(client, self._rows.get, self._submit)
        self._writes = GroupedWrites(client, self._rows.write, self._submit)
        self._room = threading.BoundedSemaphore(_WAITING_MAX)
        self._under_way: set[Future[Any]] = set()
        self._closed = False

    def blocking(self) -> BlockingDynamoRows:
        """Another face of the same rows. Closing one closes both."""
        return self._rows

    async def get(self, pk: str, sk: str) -> Row | None:
        check_key(pk, sk)
        row: Row | None = await self._together(self._reads.waiting, PendingCall((pk, sk), (pk, sk)))
        return row

    async def query(
        self, pk: str, prefix: str = "", *, after: str | None = None, limit: int = 1000
    ) -> Sequence[tuple[str, Row]]:
        self._enter()
        call = partial(self._rows.query, pk, prefix, after=after, limit=limit)
        return await self._answer(self._pool.submit(call))

    async def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        await self._write(put(pk, sk, row, conditions, write_id))

    async def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        await self._write(update(pk, sk, sets, conditions, write_id))

    async def delete_if(
        self, pk: str, sk: str, conditions: Sequence[Condition], write_id: str
    ) -> None:
        await self._write(delete(pk, sk, conditions))

    async def close(self) -> None:
        """Waits for the calls under way, but not longer than for any call."""
        self._closed = True
        self._reads.waiting.begin()
        self._writes.waiting.begin()
        calls = list(self._under_way)
        if calls:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, partial(wait, calls, self._timeout_s))
        self._pool.shutdown(wait=False)
        self._rows.close()

    async def _write(self, write: Write) -> None:
        await self._together(self._writes.waiting, PendingCall(write, write.key, write.size_bytes))

    async def _together(self, waiting: CallQueue[_Request], call: PendingCall[_Request]) -> Any:
        self._enter()
        waiting.add(call)
        # Not before everybody else who is to run now has run: they may have calls to go with it.
        asyncio.get_running_loop().call_soon(waiting.begin)
        try:
            return await self._answer(call.future)
        finally:
            call.is_wanted = False
            del call  # it holds the error, which bears this frame

    def _enter(self) -> None:
        if self._closed:
            raise Invalid("the registry is closed")
        if not self._room.acquire(blocking=False):
            raise Throttled("too many calls wait for the registry")

    async def _answer(self, future: Future[_Answer]) -> _Answer:
        self._under_way.add(future)
        future.add_done_callback(self._ended)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise _overdue(future, self._timeout_s) from None
        finally:
            del future  # it holds the error, which bears this frame

    def _ended(self, future: Future[Any]) -> None:
        self._under_way.discard(future)
        self._room.release()

    def _submit(self, job: Callable[[], None]) -> None:
        try:
            self._pool.submit(job)
        except RuntimeError:  # closed in between: the client says so to each call
            job()


def _overdue(future: Future[Any], timeout_s: float) -> LogstoreError:
    if future.cancel():
        return Retryable(f"the registry is busy or cannot be reached timeout_s={timeout_s}")
    return OutcomeUnknown(f"the registry has not answered timeout_s={timeout_s}")
