"""How long a table's owner wants files and entries kept: Delta's properties in milliseconds. Pure.

    interval 1 week        7 days        INTERVAL 2 weeks 12 hours

Delta writes these as intervals of Spark's SQL; the word `interval` may be missing. It refuses
months and years; here they count as the longest ones, so that nothing goes too early. Source:
Delta's `DeltaConfigs.parseCalendarInterval`, `TableConfig` in delta-rs.
"""

import re
from collections.abc import Mapping
from fractions import Fraction

from logstore.errors import Refused

DELETED_FILES = "delta.deletedFileRetentionDuration"
LOG_ENTRIES = "delta.logRetentionDuration"

_DEFAULTS = {DELETED_FILES: "interval 1 week", LOG_ENTRIES: "interval 30 days"}
"""Delta's own."""

_SECOND_MS = 1000
_MINUTE_MS = 60 * _SECOND_MS
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS
_UNITS_MS = {
    "nanosecond": Fraction(1, 1_000_000),
    "microsecond": Fraction(1, 1000),
    "millisecond": Fraction(1),
    "second": Fraction(_SECOND_MS),
    "minute": Fraction(_MINUTE_MS),
    "hour": Fraction(_HOUR_MS),
    "day": Fraction(_DAY_MS),
    "week": Fraction(7 * _DAY_MS),
    "month": Fraction(31 * _DAY_MS),
    "year": Fraction(366 * _DAY_MS),
}
_PART = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)\s*([a-z]+?)s?(?:\s+|$)")


def kept_ms(configuration: Mapping[str, str], name: str) -> int:
    """Of `DELETED_FILES` or `LOG_ENTRIES`, Delta's default where the table says nothing.

    Raises `Refused` for text that is no interval: then nothing can be said to be old enough.
    """
    text = configuration.get(name, _DEFAULTS[name])
    parsed = parse_interval(text)
    if parsed is None:
        raise Refused(
            f"not an interval: {name}={text!r}; ALTER TABLE … SET TBLPROPERTIES "
            f"('{name}' = '{_DEFAULTS[name]}')"
        )
    return parsed


def parse_interval(text: str) -> int | None:
    """Milliseconds, rounded up; None for anything that is not a sum of numbers and units."""
    rest = text.strip().lower().removeprefix("interval").strip()
    if not rest:
        return None
    total, at = Fraction(0), 0
    while at < len(rest):
        part = _PART.match(rest, at)
        unit = None if part is None else _UNITS_MS.get(part[2])
        if part is None or unit is None:
            return None
        total += Fraction(part[1]) * unit
        at = part.end()
    return -(-total.numerator // total.denominator)
