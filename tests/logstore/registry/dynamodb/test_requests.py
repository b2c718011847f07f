"""What is asked of DynamoDB for many rows, and what its answers mean for each: pure."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import ConditionFailed, Corrupt
from logstore.ports.registry import Comparison
from logstore.registry.dynamodb.requests import (
    AfterCancel,
    after_cancellation,
    answered,
    batch,
    delete,
    put,
    transaction,
    update,
)

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


def test_a_transaction_asks_of_each_row_what_a_request_alone_asks() -> None:
    conditions = [Comparison("n", "=", 1)]
    writes = [
        put("pk", "a", {"n": 1}, conditions, "w1"),
        update("pk", "b", {"n": 1}, conditions, "w2"),
        delete("pk", "c", conditions),
    ]
    items = transaction("logs", writes)["TransactItems"]
    assert [next(iter(item)) for item in items] == ["Put", "Update", "Delete"]
    for item, write in zip(items, writes, strict=True):
        (asked,) = item.values()
        assert asked == {"TableName": "logs", **write.request}
        assert asked["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD"


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


def test_a_batch_reads_consistently_and_tells_absent_rows_from_unprocessed_ones() -> None:
    keys = [("pk", "a"), ("pk", "b"), ("pk", "c")]
    asked = batch("logs", keys)["RequestItems"]["logs"]
    assert asked["ConsistentRead"] is True
    there, left = asked["Keys"][0], asked["Keys"][2]
    answer = {"Responses": {"logs": [there]}, "UnprocessedKeys": {"logs": {"Keys": [left]}}}
    assert answered("logs", answer) == ({("pk", "a"): there}, {("pk", "c")})
