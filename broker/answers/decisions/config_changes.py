"""A topic's configs as AlterConfigs and IncrementalAlterConfigs (KIP-339) leave them. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from broker.answers.decisions.refuse import Refuse
from logstore.config.broker import BROKER_SETTINGS
from logstore.config.kinds import SettingKind, unknown_name
from logstore.config.topics import TOPIC_SETTINGS, check_topic_configs
from logstore.wire.errors import ErrorCode

NAMES_MAX = max(len(TOPIC_SETTINGS), len(BROKER_SETTINGS)) + 1
"""Of a resource: among so many is one that it does not have, or one that is named twice."""


class ConfigOperation(IntEnum):
    """Kafka's `AlterConfigOp.OpType`."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    name: str
    change: ConfigOperation
    value: str | None


def new_configs(
    given: Sequence[tuple[str, str | None]], defaults: Mapping[str, str]
) -> dict[str, str]:
    """A topic's own configs, from (name, value) of each; `defaults` hold for those not given.

    Raises `Refuse` or `InvalidConfig`.
    """
    _check_named_once([name for name, _ in given])
    configs: dict[str, str] = {}
    for name, value in given:
        if value is None:
            raise Refuse(ErrorCode.INVALID_REQUEST, f"no value for configuration {name}")
        configs[name] = value
    return check_topic_configs(configs, defaults)


def check_changes(asked: Sequence[tuple[str, int, str | None]]) -> list[ConfigChange]:
    """(name, operation, value) of each. Raises `Refuse` or `InvalidConfig`."""
    _check_named_once([name for name, _, _ in asked])
    changes = []
    for name, operation, value in asked:
        if operation not in ConfigOperation.__members__.values():
            raise Refuse(
                ErrorCode.INVALID_REQUEST, f"unknown operation on {name}: operation={operation}"
            )
        if name not in TOPIC_SETTINGS:
            raise unknown_name(name, TOPIC_SETTINGS)
        change = ConfigOperation(operation)
        if value is None and change is not ConfigOperation.DELETE:
            raise Refuse(ErrorCode.INVALID_REQUEST, f"no value for configuration {name}")
        if (
            change in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT)
            and TOPIC_SETTINGS[name].kind is not SettingKind.LIST
        ):
            raise Refuse(
                ErrorCode.INVALID_CONFIG,
                f"cannot append to or subtract from configuration {name}: it is not a list",
            )
        changes.append(ConfigChange(name, change, value))
    return changes


def apply_changes(
    configs: Mapping[str, str], defaults: Mapping[str, str], changes: Sequence[ConfigChange]
) -> dict[str, str]:
    """The topic's own configs afterwards; `defaults` hold for those it has not.

    Raises `InvalidConfig` for a value that the configuration does not have.
    """
    changed = dict(configs)
    for name, change, value in changes:
        if change is ConfigOperation.DELETE or value is None:
            changed.pop(name, None)
        elif change is ConfigOperation.SET:
            changed[name] = value
        else:
            now = _items(changed.get(name, defaults[name]))
            changed[name] = ",".join(_combined(now, change, _items(value)))
    return check_topic_configs(changed, defaults)


def _check_named_once(names: Sequence[str]) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise Refuse(ErrorCode.INVALID_REQUEST, f"configuration changed twice: {', '.join(twice)}")


def _combined(now: Sequence[str], change: ConfigOperation, items: Sequence[str]) -> list[str]:
    if change is ConfigOperation.APPEND:
        return list(dict.fromkeys((*now, *items)))
    return [item for item in now if item not in items]


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
