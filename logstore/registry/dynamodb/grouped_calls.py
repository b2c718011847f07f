"""Sends groups of calls as one request of DynamoDB, each call with its own verdict.

A takeover changes up to a thousand rows at once, and every broker then reads as many. A request for
each costs 2 ms of a core on our side; together they cost a twentieth.

Writes go as transactions. A transaction is all or nothing, but no caller asked for that:

    it was done                     every call has succeeded
    it was cancelled                calls whose own condition failed get that error, with the row;
                                    the others, which were not done, go together once more, then
                                    each alone; alone at once where the service had more to say
    it is refused as a request      each alone: one of them may be at fault
    its outcome is not known        unknown for every call in it; each is sent again by who asked,
                                    with its own write id, and finds that id in its row if it was
                                    done (`registry.retrying`)
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from logstore.errors import Denied, Invalid, LogstoreError
from logstore.ports.registry import Row
from logstore.registry.dynamodb.call_queue import CallQueue, PendingCall
from logstore.registry.dynamodb.client import DynamoClient
from logstore.registry.dynamodb_json.errors import TransactionCancelled
from logstore.registry.dynamodb_json.grouping import (
    READS,
    TRANSACTIONS_MAX,
    WRITES,
    AfterCancel,
    after_cancellation,
    is_transaction,
)
from logstore.registry.dynamodb_json.items import Item, decode_item
from logstore.registry.dynamodb_json.requests import (
    Key,
    Write,
    answered,
    batch,
    transaction,
)

_Request = TypeVar("_Request")

Submit = Callable[[Callable[[], None]], None]


class GroupedWrites:
    """`write` does one alone, `submit` has a thread run something."""

    def __init__(
        self, client: DynamoClient, write: Callable[[Write], None], submit: Submit
    ) -> None:
        self._client = client
        self._write = write
        self._submit = submit
        self.waiting: CallQueue[Write] = CallQueue(submit, self._send, WRITES)

    def _send(self, group: Sequence[PendingCall[Write]]) -> None:
        for _ in range(TRANSACTIONS_MAX):
            if is_transaction(len(group)):  # else none has begun before its turn comes
                group = [call for call in group if self._may_go(call)]
            if not is_transaction(len(group)):
                break
            group = self._transact(group)
        _each(group, self._alone, self._submit)

    def _transact(self, group: Sequence[PendingCall[Write]]) -> Sequence[PendingCall[Write]]:
        """Answers what should go together once more."""
        table = self._client.url.table
        request = transaction(table, (call.request for call in group))
        try:
            self._client.call_many("transact_write_items", writes=True, **request)
        except TransactionCancelled as cancelled:
            facts = f"operation=transact_write_items table={table}"
            return self._sort(group, after_cancellation(cancelled.reasons, len(group), facts))
        except (Invalid, Denied):
            _each(group, self._alone, self._submit)
        except BaseException as error:  # noqa: BLE001 - the callers', also a mistake of ours
            for call in group:
                self._end(call, error)
        else:
            for call in group:
                self._end(call)
        return ()

    def _sort(
        self, group: Sequence[PendingCall[Write]], verdicts: Sequence[LogstoreError | AfterCancel]
    ) -> Sequence[PendingCall[Write]]:
        again: list[PendingCall[Write]] = []
        alone: list[PendingCall[Write]] = []
        for call, verdict in zip(group, verdicts, strict=True):
            if isinstance(verdict, LogstoreError):
                self._end(call, verdict)
            else:
                (again if verdict is AfterCancel.TOGETHER else alone).append(call)
        for call in alone:
            self._submit(partial(self._alone, call))
        return again

    def _alone(self, call: PendingCall[Write]) -> None:
        if not self._may_go(call):
            return
        call.end_with(partial(self._write, call.request))
        self._next_of(call)

    def _may_go(self, call: PendingCall[Write]) -> bool:
        may_go = call.begin()
        if not may_go:
            self._next_of(call)
        return may_go

    def _end(self, call: PendingCall[Write], error: BaseException | None = None) -> None:
        if error is None:
            call.future.set_result(None)
        else:
            call.fail(error)
        self._next_of(call)

    def _next_of(self, call: PendingCall[Write]) -> None:
        """Writes of one row that waited together are done one after the other."""
        if call.behind:
            later = call.behind.pop(0)
            later.behind, call.behind = call.behind, []
            self._submit(partial(self._alone, later))


class GroupedReads:
    """`get` reads one row alone, `submit` has a thread run something."""

    def __init__(
        self, client: DynamoClient, get: Callable[[str, str], Row | None], submit: Submit
    ) -> None:
        self._client = client
        self._get = get
        self._submit = submit
        self._has_batches = True
        self.waiting: CallQueue[Key] = CallQueue(submit, self._send, READS)

    def _send(self, group: Sequence[PendingCall[Key]]) -> None:
        if len(group) == 1 or not self._has_batches:
            _each(group, self._alone, self._submit)
        elif ready := [call for call in group if call.begin()]:
            self._batch(ready)

    def _batch(self, group: Sequence[PendingCall[Key]]) -> None:
        """Calls of the same row share its answer."""
        table = self._client.url.table
        request = batch(table, dict.fromkeys(call.key for call in group))
        try:
            answer = self._client.call_many("batch_get_item", writes=False, **request)
            items, unprocessed = answered(table, answer)
        except Denied:
            self._without_batches(group)
        except Invalid:
            _each(group, self._alone, self._submit)
        except BaseException as error:  # noqa: BLE001 - the callers', also a mistake of ours
            for call in group:
                call.fail(error)
        else:
            for call in group:
                if call.key not in unprocessed:
                    call.end_with(partial(_row, items.get(call.key)))
            left = [call for call in group if call.key in unprocessed]
            _each(left, self._alone, self._submit)

    def _without_batches(self, group: Sequence[PendingCall[Key]]) -> None:
        """If rows can be read alone, it is the policy that lacks BatchGetItem: do without it."""
        first, *rest = group
        self._alone(first)
        if first.future.exception() is None:
            self._has_batches = False
        _each(rest, self._alone, self._submit)

    def _alone(self, call: PendingCall[Key]) -> None:
        if call.begin():
            call.end_with(partial(self._get, *call.key))


def _each(
    group: Sequence[PendingCall[_Request]],
    alone: Callable[[PendingCall[_Request]], None],
    submit: Submit,
) -> None:
    """Every call by itself: the first here, the others by whichever threads are free."""
    for call in group[1:]:
        submit(partial(alone, call))
    for call in group[:1]:
        alone(call)


def _row(item: Item | None) -> Row | None:
    return None if item is None else decode_item(item)[1]
