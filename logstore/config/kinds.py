"""One named setting: kind, default, limits, parsing of its text.

Values are stored as the user's text, as in Kafka; `parse` converts it. Pure.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from logstore.errors import Invalid

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

SECRETS = ("password", "secret", "jaas.config", ".keystore.key")
"""Ends of names whose values are not shown."""

Value = bool | int | float | str | tuple[str, ...]


class InvalidConfig(Invalid):
    """Kafka's INVALID_CONFIG: an unknown name, or a value the setting does not have."""


class SettingKind(Enum):
    """Kafka's `ConfigDef.Type`, with the number DescribeConfigs shows."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


_LIMITS = {SettingKind.INT: INT_MAX, SettingKind.LONG: LONG_MAX}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    name: str
    kind: SettingKind
    default: str
    documentation: str
    at_least: float | None = None
    at_most: float | None = None
    one_of: tuple[str, ...] = ()
    """Allowed texts, of a list allowed items; empty: any."""
    refused: tuple[tuple[str, str], ...] = ()
    """Texts that Kafka takes and that are not taken here, and what to do instead."""

    def parse(self, text: str) -> Value:
        """The value of `text`. Raises `InvalidConfig`, which names the setting."""
        try:
            value = _parse(self.kind, text.strip())
        except ValueError:
            raise self._invalid(text, f"not of type {self.kind.name.lower()}") from None
        if isinstance(value, int | float) and not isinstance(value, bool):
            self._check_limits(text, value)
        if instead := dict(self.refused).get(text.strip().upper()):
            raise self._invalid(text, instead)
        items = value if isinstance(value, tuple) else (text.strip(),)
        for item in items:
            if self.one_of and item not in self.one_of:
                raise self._invalid(text, f"not one of {', '.join(self.one_of)}")
        return value

    def _check_limits(self, text: str, value: float) -> None:
        if self.at_least is not None and value < self.at_least:
            raise self._invalid(text, f"must be at least {self.at_least}")
        at_most = self.at_most if self.at_most is not None else _LIMITS.get(self.kind)
        if at_most is not None and value > at_most:
            raise self._invalid(text, f"must be at most {at_most}")

    def _invalid(self, text: str, why: str) -> InvalidConfig:
        return InvalidConfig(f"invalid value {text!r} for configuration {self.name}: {why}")


def by_name(settings: Iterable[Setting]) -> dict[str, Setting]:
    return {setting.name: setting for setting in settings}


def is_sensitive(name: str) -> bool:
    """Whether values of this name are never shown."""
    return name.endswith(SECRETS)


def unknown_name(name: str, known: Iterable[str]) -> InvalidConfig:
    """The error for a name that is not in `known`; suggests the nearest one."""
    return InvalidConfig(f"unknown configuration name: {name}{nearest(name, known)}")


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error about `name` that suggests the nearest of `known`; empty: none is."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def _parse(kind: SettingKind, text: str) -> Value:
    match kind:
        case SettingKind.BOOLEAN:
            return _boolean(text.lower())
        case SettingKind.INT | SettingKind.LONG:
            if not (text.isascii() and text.lstrip("-").isdecimal()):
                raise ValueError  # int() also takes underscores, spaces and a plus sign
            return int(text)
        case SettingKind.DOUBLE:
            return float(text)
        case SettingKind.LIST:
            return tuple(item.strip() for item in text.split(",") if item.strip())
        case SettingKind.STRING:
            return text


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError
    return text == "true"
