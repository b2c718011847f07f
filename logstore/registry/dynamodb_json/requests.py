"""Requests to DynamoDB for one write, for many together, and for many rows. Pure.

write               put_item, update_item or delete_item, with one condition expression
writes together     transact_write_items: each as if alone, all or nothing
reads together      batch_get_item, strongly consistent, each key once
rows by prefix      query, but for where a page begins and ends
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from logstore.ports.registry import Condition, Row
from logstore.registry.dynamodb_json.items import (
    PK,
    SK,
    Expressions,
    Item,
    encode_item,
    encode_key,
)
from logstore.registry.verdicts import check_key, check_row

Key = tuple[str, str]
"""(pk, sk)"""

Operation = Literal["put_item", "update_item", "delete_item"]

_IN_TRANSACTION: Mapping[Operation, str] = {
    "put_item": "Put",
    "update_item": "Update",
    "delete_item": "Delete",
}


@dataclass(frozen=True, slots=True)
class Write:
    """One conditional write of the row `key`."""

    operation: Operation
    key: Key
    size_bytes: int
    """Approximate bytes of the row in the request."""
    request: Mapping[str, Any]
    """All but the table."""


def put(pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str) -> Write:
    """Raises `Invalid`, as the next two do."""
    check_key(pk, sk)
    check_row(row)
    expressions = Expressions()
    condition = expressions.condition(conditions, needs_row=False)
    item = {"Item": encode_item(pk, sk, row, write_id)}
    return _write("put_item", (pk, sk), row, expressions, condition, item)


def update(pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str) -> Write:
    check_key(pk, sk)
    check_row(sets)
    expressions = Expressions()
    condition = expressions.condition(conditions, needs_row=True)
    updates = expressions.updates(sets, write_id)
    change = {"Key": encode_key(pk, sk), "UpdateExpression": updates}
    return _write("update_item", (pk, sk), sets, expressions, condition, change)


def delete(pk: str, sk: str, conditions: Sequence[Condition]) -> Write:
    check_key(pk, sk)
    expressions = Expressions()
    condition = expressions.condition(conditions, needs_row=True)
    key = {"Key": encode_key(pk, sk)}
    return _write("delete_item", (pk, sk), {}, expressions, condition, key)


def transaction(table: str, writes: Iterable[Write]) -> dict[str, Any]:
    """`writes` are of different rows."""
    items = [
        {_IN_TRANSACTION[write.operation]: {"TableName": table, **write.request}}
        for write in writes
    ]
    return {"TransactItems": items}


def batch(table: str, keys: Iterable[Key]) -> dict[str, Any]:
    """`keys` are different ones."""
    asked = [encode_key(pk, sk) for pk, sk in keys]
    return {"RequestItems": {table: {"Keys": asked, "ConsistentRead": True}}}


def answered(table: str, answer: Mapping[str, Any]) -> tuple[dict[Key, Item], set[Key]]:
    """Items by key, and the keys that the service has not looked for; all others are absent."""
    items = answer.get("Responses", {}).get(table, ())
    unprocessed = answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", ())
    return {_key(item): item for item in items}, {_key(item) for item in unprocessed}


def query(pk: str, prefix: str) -> dict[str, Any]:
    """All rows of `pk` whose sort key begins with `prefix`."""
    expressions = Expressions()
    condition = f"{expressions.name(PK)} = {expressions.value(pk)}"
    if prefix:
        condition += f" AND begins_with({expressions.name(SK)}, {expressions.value(prefix)})"
    return {"KeyConditionExpression": condition, **expressions.placeholders()}


def _write(
    operation: Operation,
    key: Key,
    row: Row,
    expressions: Expressions,
    condition: str,
    change: dict[str, Any],
) -> Write:
    request = {**change, **expressions.placeholders()}
    if condition:
        request["ConditionExpression"] = condition
        request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    size_bytes = sum(8 if isinstance(value, int) else len(value) for value in row.values())
    return Write(operation, key, size_bytes, request)


def _key(item: Item) -> Key:
    return item[PK]["S"], item[SK]["S"]
