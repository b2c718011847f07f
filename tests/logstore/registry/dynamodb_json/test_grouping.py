"""Which calls of DynamoDB go together, and which go on after a cancelled transaction: pure."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import ConditionFailed, Corrupt
from logstore.registry.dynamodb_json.grouping import (
    WRITES_MIN,
    AfterCancel,
    CallGroupLimits,
    after_cancellation,
    is_transaction,
    next_group,
)
from logstore.registry.dynamodb_json.requests import Key

FAILED: Mapping[str, Any] = {
    "Code": "ConditionalCheckFailed",
    "Message": "The conditional request failed",
    "Item": {"pk": {"S": "pk"}, "sk": {"S": "sk"}, "n": {"N": "7"}},
}
NOTHING: Mapping[str, Any] = {"Code": "None"}
OTHERS = (
    "ItemCollectionSizeLimitExceeded",
    "ProvisionedThroughputExceeded",
    "ThrottlingError",
    "TransactionConflict",
    "ValidationError",
    "SomethingNew",
)


@dataclass
class Call:
    key: Key
    size_bytes: int = 0
    cancelled: bool = False

    def is_cancelled(self) -> bool:
        return self.cancelled


def calls(sort_keys: str, size_bytes: int = 0) -> deque[Call]:
    return deque(Call(("pk", sk), size_bytes) for sk in sort_keys)


def sort_keys(group: list[list[Call]]) -> list[str]:
    return ["".join(call.key[1] for call in row) for row in group]


def test_a_group_ends_at_its_calls_or_bytes_and_leaves_the_rest() -> None:
    waiting = calls("abcde", size_bytes=4)
    assert sort_keys(next_group(waiting, CallGroupLimits(3, bytes_max=100))) == ["a", "b", "c"]
    assert sort_keys(next_group(waiting, CallGroupLimits(3, bytes_max=3))) == [
        "d"
    ]  # longer, so alone
    assert [call.key[1] for call in waiting] == ["e"]


def test_a_later_write_of_a_row_follows_the_earlier_one() -> None:
    limits = CallGroupLimits(3, once_each=True)
    assert sort_keys(next_group(calls("abacab"), limits)) == ["aa", "b", "c"]
    assert sort_keys(next_group(calls("aab"), CallGroupLimits(3))) == ["a", "a", "b"]


def test_a_cancelled_call_is_dropped() -> None:
    waiting = calls("ab")
    waiting[0].cancelled = True
    assert sort_keys(next_group(waiting, CallGroupLimits(1))) == ["b"]
    assert not waiting


def test_few_writes_are_no_transaction_which_is_billed_twice() -> None:
    assert [is_transaction(writes) for writes in (0, WRITES_MIN - 1, WRITES_MIN)] == [0, 0, 1]


def test_a_failed_condition_shows_its_row_and_the_rest_goes_on_together() -> None:
    failed, nothing = after_cancellation([FAILED, NOTHING], 2, "table=logs")
    assert isinstance(failed, ConditionFailed)
    assert failed.current == {"n": 7}
    assert nothing is AfterCancel.TOGETHER


def test_a_failed_condition_without_an_item_means_that_there_is_no_row() -> None:
    (failed,) = after_cancellation([{"Code": "ConditionalCheckFailed"}], 1, "")
    assert isinstance(failed, ConditionFailed)
    assert failed.current is None


def test_a_row_that_cannot_be_decoded_concerns_its_own_call() -> None:
    strange = {**FAILED, "Item": {**FAILED["Item"], "n": {"N": "1.5"}}}
    corrupt, failed = after_cancellation([strange, FAILED], 2, "")
    assert isinstance(corrupt, Corrupt)
    assert isinstance(failed, ConditionFailed)


@given(st.lists(st.sampled_from([FAILED, NOTHING, *({"Code": code} for code in OTHERS)])))
def test_only_the_condition_of_a_write_itself_is_a_verdict(
    reasons: list[Mapping[str, Any]],
) -> None:
    verdicts = after_cancellation(reasons, len(reasons), "")
    assert len(verdicts) == len(reasons)
    for reason, verdict in zip(reasons, verdicts, strict=True):
        if reason is FAILED:
            assert isinstance(verdict, ConditionFailed)
        elif reason is NOTHING:
            assert isinstance(verdict, AfterCancel)
        else:
            assert verdict is AfterCancel.ALONE


def test_a_cancellation_that_does_not_say_why_sends_each_alone() -> None:
    assert after_cancellation([], 3, "") == [AfterCancel.ALONE] * 3
    assert after_cancellation([FAILED], 2, "") == [AfterCancel.ALONE] * 2
    assert after_cancellation([NOTHING, NOTHING], 2, "") == [AfterCancel.ALONE] * 2
