"""How often something runs: `30s`, `1m`, `2h`; and the setting by which a broker compacts. Pure."""

import re

from logstore.config.kinds import InvalidConfig

EVERY = "logstore.compaction.every"
OFF = "off"
FORM = "a time such as 30s, 1m, 1h"
EVERY_MIN_S = 1.0
_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}
_TIME = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smh])")


def seconds_of(text: str) -> float:
    """`30s`, `1m`, `2h` in seconds. Raises `ValueError`."""
    match = _TIME.fullmatch(text.strip())
    if match is None or float(match[1]) <= 0:
        raise ValueError(f"{text!r} is not {FORM}")
    return float(match[1]) * _UNITS_S[match[2]]


def parse_every(text: str) -> float | None:
    """Seconds between the runs of a broker's compaction; None: it runs none. Raises
    `InvalidConfig`."""
    if text.strip() == OFF:
        return None
    try:
        seconds = seconds_of(text)
    except ValueError:
        raise _invalid(text, f"give {FORM}, or {OFF}") from None
    if seconds < EVERY_MIN_S:
        raise _invalid(text, f"must be at least {EVERY_MIN_S:g}s")
    return seconds


def _invalid(text: str, why: str) -> InvalidConfig:
    return InvalidConfig(f"invalid value {text!r} for configuration {EVERY}: {why}")
