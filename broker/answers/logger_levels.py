"""Levels of this process's loggers, by Kafka's names: they last as long as the process.

TRACE is DEBUG here. A logger is `root`, or one that a module of the broker has made.
"""

import logging
from collections.abc import Mapping

from logstore.config.kinds import InvalidConfig

ROOT = "root"
LEVELS: Mapping[str, int] = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_SHOWN = {level: name for name, level in LEVELS.items()}
_PACKAGES = ("broker", "logstore")

_AT_START: dict[str, int] = {}
"""Levels of loggers before they were first changed."""


def logger_names() -> list[str]:
    known = logging.root.manager.loggerDict
    return [ROOT, *sorted(name for name in known if name.split(".")[0] in _PACKAGES)]


def logger_level(name: str) -> str:
    """The level that is in force, its own or that of a logger above it."""
    return _SHOWN.get(logging.getLogger(name).getEffectiveLevel(), "INFO")


def check_level(name: str, level: str | None) -> None:
    """Raises `InvalidConfig`; None: the one from before any change."""
    if name not in logger_names():
        raise InvalidConfig(f"no such logger: name={name}")
    if level is not None and level.upper() not in LEVELS:
        raise InvalidConfig(f"no such level: {name}={level}; there are {', '.join(LEVELS)}")


def set_level(name: str, level: str | None) -> None:
    """As `check_level` allows it."""
    changed = logging.getLogger(name)
    before = _AT_START.setdefault(name, changed.level)
    changed.setLevel(before if level is None else LEVELS[level.upper()])
