"""Rows as DynamoDB items, and conditions as condition expressions.

    str → {"S": …}    int → {"N": "…"}    bytes → {"B": …}

An expression says what `registry.verdicts.holds` says. Left to itself DynamoDB differs in one
thing: `a <> b` is true where the attribute is missing or has another type. So every comparison but
`=` asks for the type as well, which also spares emulators the ordering of unlike values. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from logstore.errors import Corrupt
from logstore.ports.registry import WRITE_ID, Condition, Row, RowAbsent, RowExists, Value
from logstore.registry.verdicts import check_row

Item = Mapping[str, Mapping[str, Any]]

PK, SK = "pk", "sk"

_SPELT = {"=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def encode_key(pk: str, sk: str) -> dict[str, dict[str, str]]:
    return {PK: {"S": pk}, SK: {"S": sk}}


def encode_item(pk: str, sk: str, row: Row, write_id: str) -> dict[str, dict[str, Any]]:
    values = {**row, WRITE_ID: write_id}
    return {**encode_key(pk, sk), **{name: _encode(value) for name, value in values.items()}}


def decode_item(item: Item) -> tuple[str, dict[str, Value]]:
    """(sk, row). Raises `Corrupt` for an item that no write of ours leaves."""
    row = {name: _decode(name, value) for name, value in item.items() if name not in (PK, SK)}
    sk = _decode(SK, item.get(SK, {}))
    if not isinstance(sk, str):
        raise Corrupt(f"an item of the registry has a strange sort key: sk={sk!r}")
    return sk, row


class Expressions:
    """The expressions of one request, with the placeholders they share."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._values: list[dict[str, Any]] = []

    def name(self, attribute: str) -> str:
        return self._names.setdefault(attribute, f"#{len(self._names)}")

    def value(self, value: Value) -> str:
        self._values.append(_encode(value))
        return f":{len(self._values) - 1}"

    def condition(self, conditions: Sequence[Condition], *, needs_row: bool) -> str:
        """All of `conditions`, and that there is a row if `needs_row`; empty if nothing is
        asked.
        """
        asked = [self._exists()] if needs_row else []
        return " AND ".join(asked + [self._term(term) for term in conditions])

    def updates(self, sets: Row, write_id: str) -> str:
        values = {**sets, WRITE_ID: write_id}
        return "SET " + ", ".join(
            f"{self.name(name)} = {self.value(value)}" for name, value in values.items()
        )

    def placeholders(self) -> dict[str, Any]:
        """Names and values that the request carries beside its expressions."""
        given: dict[str, Any] = {}
        if self._names:
            given["ExpressionAttributeNames"] = {at: name for name, at in self._names.items()}
        if self._values:
            given["ExpressionAttributeValues"] = {
                f":{number}": value for number, value in enumerate(self._values)
            }
        return given

    def _term(self, term: Condition) -> str:
        if isinstance(term, RowAbsent):
            return f"attribute_not_exists({self.name(PK)})"
        if isinstance(term, RowExists):
            return self._exists()
        if term.attribute in (PK, SK, ""):  # no row has such an attribute
            return f"{self._exists()} AND attribute_not_exists({self.name(PK)})"
        check_row({term.attribute: term.value})
        name = self.name(term.attribute)
        compared = f"{name} {_SPELT[term.operator]} {self.value(term.value)}"
        if term.operator == "=":
            return compared
        kind = next(iter(_encode(term.value)))
        return f"attribute_type({name}, {self.value(kind)}) AND {compared}"

    def _exists(self) -> str:
        return f"attribute_exists({self.name(PK)})"


def _encode(value: Value) -> dict[str, Any]:
    match value:
        case str():
            return {"S": value}
        case bytes():
            return {"B": value}
        case int():
            return {"N": str(int(value))}


def _decode(name: str, value: Mapping[str, Any]) -> Value:
    tagged = next(iter(value.items()), None)
    try:
        match tagged:
            case ("S", str(text)):
                return text
            case ("B", bytes(data)):
                return data
            case ("N", str(number)):
                return int(number)
            case _:
                pass
    except ValueError:
        pass  # a fraction
    raise Corrupt(
        f"an item of the registry cannot be decoded attribute={name} value={value!r:.200}"
    )
