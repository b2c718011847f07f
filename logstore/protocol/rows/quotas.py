"""Client quotas in the registry: read, and changed entity by entity. Steps.

The caller publishes a change (`QUOTAS_CHANGED`). Of two concurrent changes both are kept.
"""

from collections.abc import Mapping, Sequence

from logstore.errors import ConditionFailed, Invalid, Retryable
from logstore.formats.quota_row import QUOTA, QuotaEntity, QuotaRow, Quotas, Values
from logstore.ports.registry import Comparison, Condition, Row, RowAbsent
from logstore.protocol.steps import BackOff, GetRow, PutRow, QueryRows, Steps, sliced
from logstore.slices import Slices

ATTEMPTS_MAX = 20
ROW_BYTES_MAX = 64 * 1024
"""There are 16 rows: some 10,000 quotas in all, a slice of work each (2 ms)."""

Change = Mapping[str, float | None]
"""New values by name; None: the value goes."""


class TooManyQuotas(Invalid):
    """The row that a quota belongs to is full."""


def read_quotas() -> Steps[Quotas]:
    rows = yield QueryRows(QUOTA)
    return (yield from sliced(_decoded_in_slices(rows)))


def _decoded_in_slices(rows: Sequence[tuple[str, Row]]) -> Slices[Quotas]:
    quotas: dict[QuotaEntity, Values] = {}
    for _, row in rows:
        quotas.update(QuotaRow.of(row).quotas)
        yield
    return quotas


def changed_values(values: Values, change: Change) -> Values:
    """The values of an entity after `change`; empty: it has no quota any more."""
    merged = {**values, **change}
    return {name: value for name, value in merged.items() if value is not None}


def change_quotas(sk: str, changes: Mapping[QuotaEntity, Change]) -> Steps[QuotaRow]:
    """Change entities of one row; nothing is written where nothing changes.

    Raises `TooManyQuotas`, `Retryable` after losing many races, or as the registry does.
    """
    for attempt in range(1, ATTEMPTS_MAX + 1):
        row = yield GetRow(QUOTA, sk)
        known = QuotaRow() if row is None else QuotaRow.of(row)
        wanted = _changed(known, changes)
        if wanted.quotas == known.quotas:
            return known
        encoded = wanted.row()
        if len(str(encoded["quotas"])) > ROW_BYTES_MAX and _has_more(wanted, known):
            raise TooManyQuotas(
                f"too many client quotas: row=quota/{sk} bytes_max={ROW_BYTES_MAX}; remove others"
            )
        try:
            yield PutRow(QUOTA, sk, encoded, _as_it_was(known))
        except ConditionFailed:
            yield BackOff(attempt)
        else:
            return wanted
    raise Retryable("too many concurrent changes of client quotas; try again")


def _changed(known: QuotaRow, changes: Mapping[QuotaEntity, Change]) -> QuotaRow:
    quotas = dict(known.quotas)
    for entity, change in changes.items():
        values = changed_values(quotas.pop(entity, {}), change)
        if values:
            quotas[entity] = values
    return QuotaRow(known.version + 1, quotas)


def _has_more(wanted: QuotaRow, known: QuotaRow) -> bool:
    """Removals are taken from a row that is too full, too."""
    return sum(map(len, wanted.quotas.values())) > sum(map(len, known.quotas.values()))


def _as_it_was(known: QuotaRow) -> Sequence[Condition]:
    return [Comparison("version", "=", known.version)] if known.version else [RowAbsent()]
