"""Settings of brokers, and levels of their loggers, as clients change them while brokers run.

Settings are kept in the registry, of one broker or of all; each broker follows them. Levels are
this process's own, as in Kafka.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from broker.answers.broker import Broker
from broker.answers.client_changes import log_change
from broker.answers.config_resources import check_broker_name
from broker.answers.decisions.config_changes import ConfigOperation
from broker.answers.decisions.refuse import Refuse
from broker.answers.logger_levels import check_level, set_level
from broker.network.authorizer import CLUSTER, Operation
from broker.network.call import Call
from logstore.config.broker import check_changed
from logstore.config.kinds import is_sensitive
from logstore.formats.config_row import ALL_BROKERS, CONFIGS_CHANGED
from logstore.protocol.rows.broker_configs import change_broker_configs
from logstore.wire.errors import ErrorCode

DEFAULT = "(default)"
APPLIED_S_MAX = 5.0


class BrokerChange(NamedTuple):
    """New texts by name, None for back to what else there is. `is_whole`: no others remain."""

    texts: Mapping[str, str | None]
    is_whole: bool


def incremental_change(asked: Sequence[Any]) -> BrokerChange:
    """Of the configs of an IncrementalAlterConfigs. Raises `Refuse`."""
    _check_named_once([one.name for one in asked])
    change: dict[str, str | None] = {}
    for one in asked:
        if one.config_operation not in ConfigOperation.__members__.values():
            text = f"unknown operation on {one.name}: operation={one.config_operation}"
            raise Refuse(ErrorCode.INVALID_REQUEST, text)
        if one.config_operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            text = f"cannot append to or subtract from {one.name}: it is not a list"
            raise Refuse(ErrorCode.INVALID_CONFIG, text)
        is_set = one.config_operation == ConfigOperation.SET
        if is_set and one.value is None:
            raise Refuse(ErrorCode.INVALID_REQUEST, f"no value for configuration {one.name}")
        change[one.name] = one.value if is_set else None
    return BrokerChange(change, is_whole=False)


def whole_change(asked: Sequence[Any]) -> BrokerChange:
    """Of the configs of an AlterConfigs, which are all that there are then. Raises `Refuse`."""
    _check_named_once([one.name for one in asked])
    for one in asked:
        if one.value is None:
            raise Refuse(ErrorCode.INVALID_REQUEST, f"no value for configuration {one.name}")
    return BrokerChange({one.name: one.value for one in asked}, is_whole=True)


def _check_named_once(names: Sequence[str]) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise Refuse(ErrorCode.INVALID_REQUEST, f"configuration changed twice: {', '.join(twice)}")


def _check_allowed(broker: Broker, call: Call) -> None:
    if not broker.allows(call, Operation.ALTER_CONFIGS, *CLUSTER):
        raise Refuse(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not allowed to change brokers' settings"
        )


async def alter_broker(
    broker: Broker, call: Call, name: str, change: BrokerChange, *, is_check: bool
) -> None:
    """Change the settings of the broker `name`, or of all. Raises `Refuse`, `InvalidConfig`."""
    _check_allowed(broker, call)
    if name != ALL_BROKERS and name not in map(str, broker.log.brokers):
        raise Refuse(ErrorCode.INVALID_REQUEST, f"no such broker: {name!r}")
    for setting, text in change.texts.items():
        if text is not None:
            check_changed(setting, text)
    if is_check:
        return

    def changed(known: Mapping[str, str]) -> Mapping[str, str]:
        merged = {**({} if change.is_whole else known), **change.texts}
        return {setting: text for setting, text in merged.items() if text is not None}

    row = await broker.log.runner.run(change_broker_configs(name, changed))
    now = ",".join(f"{one}:{_shown(one, row.configs)}" for one in sorted(change.texts))
    log_change(call, "settings changed: broker=%s configs=%s", name or "all", now)
    await broker.log.publish([CONFIGS_CHANGED])
    # Another client may change them again first: then ours were applied before, or never are.
    await broker.topic_watch.until(
        lambda: broker.log.rows.broker_configs.get(name, {}) == row.configs, APPLIED_S_MAX
    )


def _shown(name: str, configs: Mapping[str, str]) -> str:
    return "(hidden)" if is_sensitive(name) else configs.get(name, DEFAULT)


def alter_loggers(
    broker: Broker, call: Call, name: str, change: BrokerChange, *, is_check: bool
) -> None:
    """Set levels of this broker's loggers. Raises `Refuse`, `InvalidConfig`."""
    _check_allowed(broker, call)
    if not check_broker_name(broker, name):
        raise Refuse(ErrorCode.INVALID_REQUEST, "name the broker whose loggers are changed")
    if change.is_whole:  # as in Kafka
        text = "levels of loggers are changed one by one: by IncrementalAlterConfigs"
        raise Refuse(ErrorCode.INVALID_REQUEST, text)
    levels = change.texts
    for logger, level in levels.items():
        check_level(logger, level)
    if is_check:
        return
    for logger, level in levels.items():
        set_level(logger, level)
    now = ",".join(f"{logger}:{level or DEFAULT}" for logger, level in sorted(levels.items()))
    log_change(call, "levels of loggers changed: levels=%s", now)
