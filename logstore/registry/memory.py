"""A row store in memory: no thread, no wait, the same on a loop with virtual time.

Each call is one step of the event loop, so calls are atomic. A write makes a new row and leaves the
old one as it was, so rows given out do not change.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping, Sequence

from logstore.ports.registry import Condition, Row
from logstore.registry.verdicts import (
    after_put,
    after_update,
    check_delete,
    check_key,
    check_query,
    check_row,
)


class MemoryRows:
    """A `RowStore` for one event loop. Several registries on one `MemoryRows` share its rows."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], Row] = {}
        self._order: dict[str, list[str]] = {}  # the sort keys of each pk, sorted

    async def get(self, pk: str, sk: str) -> Row | None:
        check_key(pk, sk)
        return self._rows.get((pk, sk))

    async def query(
        self, pk: str, prefix: str = "", *, after: str | None = None, limit: int = 1000
    ) -> Sequence[tuple[str, Row]]:
        check_query(pk, prefix, after, limit)
        order = self._order.get(pk, [])
        at = bisect_left(order, prefix)
        if after is not None:
            at = max(at, bisect_right(order, after))
        page = []
        for sk in order[at : at + limit]:
            if not sk.startswith(prefix):
                break
            page.append((sk, self._rows[pk, sk]))
        return page

    async def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        check_key(pk, sk)
        check_row(row)
        current = self._rows.get((pk, sk))
        self._rows[pk, sk] = after_put(current, row, conditions, write_id)
        if current is None:
            insort(self._order.setdefault(pk, []), sk)

    async def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        check_key(pk, sk)
        check_row(sets)
        self._rows[pk, sk] = after_update(self._rows.get((pk, sk)), sets, conditions, write_id)

    async def delete_if(
        self, pk: str, sk: str, conditions: Sequence[Condition], write_id: str
    ) -> None:
        check_key(pk, sk)
        check_delete(self._rows.get((pk, sk)), conditions)
        del self._rows[pk, sk]
        order = self._order[pk]
        del order[bisect_left(order, sk)]
        if not order:
            del self._order[pk]

    def copy(self) -> dict[tuple[str, str], Row]:
        """Every row as it is now, for `put_back`."""
        return dict(self._rows)

    def put_back(self, rows: Mapping[tuple[str, str], Row]) -> None:
        """Be as `copy` found it, whatever was written since; of nothing: lose every row."""
        self._rows = dict(rows)
        self._order = {}
        for pk, sk in sorted(rows):
            self._order.setdefault(pk, []).append(sk)

    async def close(self) -> None:
        """Keeps the rows: another registry may hold them."""
