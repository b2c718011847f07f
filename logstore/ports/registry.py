"""The registry port: a handful of rows that change only by conditional writes.

A row is found by (pk, sk), two strings, and holds flat attributes. Reads are strongly consistent;
every write touches one row, and happens only if all its conditions hold on the row as it stands.

Every write carries a fresh write id, kept in the row as `wid`. A write whose answer was lost is
sent again with the same id; a failed condition whose current row bears that id is its own success.
`RowStore` is what a back end implements (one attempt, explicit id); `registry.retrying` makes a
`Registry` of it, which is what everything else uses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Value = str | int | bytes
Row = Mapping[str, Value]

WRITE_ID = "wid"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One term on one attribute. A missing attribute, or one of another type, makes it false."""

    attribute: str
    operator: Literal["=", "!=", "<", "<=", ">", ">="]
    value: Value


@dataclass(frozen=True, slots=True)
class RowAbsent:
    """There is no row."""


@dataclass(frozen=True, slots=True)
class RowExists:
    """There is a row."""


Condition = Comparison | RowAbsent | RowExists


class RowStore(Protocol):
    """One attempt at each call. Raises `Retryable`, `Throttled`, `OutcomeUnknown` like a store."""

    async def get(self, pk: str, sk: str) -> Row | None: ...

    async def query(
        self, pk: str, prefix: str = "", *, after: str | None = None, limit: int = 1000
    ) -> Sequence[tuple[str, Row]]:
        """Up to `limit` rows (sk, row) of `pk` in order of sk, with sk > `after` if given.

        Fewer than `limit` rows means that there are no more.
        """
        ...

    async def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        """Replace the row. Raises `ConditionFailed` with the row as it stands."""
        ...

    async def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        """Set attributes of an existing row, keep the others. Raises `ConditionFailed`.

        An update of a row that does not exist fails, whatever the conditions are.
        """
        ...

    async def delete_if(
        self, pk: str, sk: str, conditions: Sequence[Condition], write_id: str
    ) -> None:
        """Remove the row. Raises `ConditionFailed`; an absent row fails its condition too."""
        ...

    async def close(self) -> None: ...


class BlockingRowStore(Protocol):
    """The same port, blocking: Spark workers (which only read) and tools."""

    def get(self, pk: str, sk: str) -> Row | None: ...

    def query(
        self, pk: str, prefix: str = "", *, after: str | None = None, limit: int = 1000
    ) -> Sequence[tuple[str, Row]]: ...

    def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> None: ...

    def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None: ...

    def delete_if(
        self, pk: str, sk: str, conditions: Sequence[Condition], write_id: str
    ) -> None: ...

    def close(self) -> None: ...


class Registry(Protocol):
    """The registry as logstore uses it, with write ids and retries."""

    async def get(self, pk: str, sk: str) -> Row | None: ...

    async def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]: ...

    async def put_if(self, pk: str, sk: str, row: Row, *conditions: Condition) -> None: ...

    async def update_if(self, pk: str, sk: str, sets: Row, *conditions: Condition) -> None: ...

    async def delete_if(self, pk: str, sk: str, *conditions: Condition) -> None: ...

    async def close(self) -> None: ...
