"""Requests to DynamoDB for many rows, and the rows of an answer: pure."""

from logstore.ports.registry import Comparison
from logstore.registry.dynamodb_json.requests import (
    answered,
    batch,
    delete,
    put,
    query,
    transaction,
    update,
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


def test_a_batch_reads_consistently_and_tells_absent_rows_from_unprocessed_ones() -> None:
    keys = [("pk", "a"), ("pk", "b"), ("pk", "c")]
    asked = batch("logs", keys)["RequestItems"]["logs"]
    assert asked["ConsistentRead"] is True
    there, left = asked["Keys"][0], asked["Keys"][2]
    answer = {"Responses": {"logs": [there]}, "UnprocessedKeys": {"logs": {"Keys": [left]}}}
    assert answered("logs", answer) == ({("pk", "a"): there}, {("pk", "c")})


def test_a_query_asks_for_a_prefix_only_if_there_is_one() -> None:
    every, some = query("pk", ""), query("pk", "topics/")
    assert every["KeyConditionExpression"] == "#0 = :0"
    assert some["KeyConditionExpression"] == "#0 = :0 AND begins_with(#1, :1)"
    assert some["ExpressionAttributeValues"] == {":0": {"S": "pk"}, ":1": {"S": "topics/"}}
