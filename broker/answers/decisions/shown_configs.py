"""Configs as clients see them: each with its value, source and description. Pure.

A topic's value is its own, else the broker's setting of the matching name, else the default; these
are its synonyms, in this order. A broker's setting is the one that was changed for it while it
runs, else for all brokers, else the one given at its start. Values that must stay secret are null.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from logstore.config.broker import BROKER_SETTINGS, BrokerSettings
from logstore.config.changeable import CHANGEABLE
from logstore.config.kinds import Setting, SettingKind, is_sensitive
from logstore.config.process import BY_STORE
from logstore.config.topics import BROKER_NAMES, TOPIC_SETTINGS


class Source(IntEnum):
    """Kafka's `DescribeConfigsResponse.ConfigSource`."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: Source


class ShownConfig(NamedTuple):
    name: str
    value: str | None
    source: Source
    is_read_only: bool
    is_sensitive: bool
    kind: SettingKind
    documentation: str
    synonyms: Sequence[Synonym]
    """All sources of a value for this name; the first prevails."""


def show_topic_configs(configs: Mapping[str, str], broker: BrokerSettings) -> list[ShownConfig]:
    """All of a topic whose own configs are `configs`."""
    shown = []
    for name, setting in TOPIC_SETTINGS.items():
        synonyms = []
        if name in configs:
            synonyms.append(Synonym(name, configs[name], Source.TOPIC))
        broker_name = BROKER_NAMES.get(name)
        if broker_name is None:
            synonyms.append(Synonym(name, setting.default, Source.DEFAULT))
        else:
            synonyms += _of_broker(broker_name, broker)
        is_hidden = synonyms[0].name in broker.hidden and synonyms[0].value is None
        shown.append(_shown(setting, synonyms, is_read_only=False, is_hidden=is_hidden))
    return shown


def show_broker_configs(broker: BrokerSettings) -> list[ShownConfig]:
    return [
        _shown(
            setting,
            _of_broker(name, broker),
            is_read_only=name not in CHANGEABLE,
            is_hidden=name in broker.hidden,
        )
        for name, setting in BROKER_SETTINGS.items()
    ]


def show_changed_configs(broker: BrokerSettings) -> list[ShownConfig]:
    """Those that were changed for all brokers, as Kafka shows the broker without a name."""
    return [
        _shown(
            BROKER_SETTINGS[name],
            [Synonym(name, text, Source.DYNAMIC_DEFAULT_BROKER)],
            is_read_only=False,
            is_hidden=False,
        )
        for name, text in sorted(broker.everywhere.items())
    ]


def show_logger(name: str, level: str) -> ShownConfig:
    synonyms = [Synonym(name, level, Source.DYNAMIC_BROKER_LOGGER)]
    source = Source.DYNAMIC_BROKER_LOGGER
    text = "Level of a logger of this process."
    return ShownConfig(name, level, source, False, False, SettingKind.STRING, text, synonyms)


def _of_broker(name: str, broker: BrokerSettings) -> list[Synonym]:
    setting = BROKER_SETTINGS[name]
    # A setting that depends on the store has no default to show; an empty number means none.
    default = None if setting.default == BY_STORE else setting.default
    synonyms = [Synonym(name, default, Source.DEFAULT)]
    if name in broker.given:
        value = None if name in broker.hidden else broker.given[name]
        synonyms.insert(0, Synonym(name, value, Source.STATIC_BROKER))
    for changed, source in (
        (broker.everywhere, Source.DYNAMIC_DEFAULT_BROKER),
        (broker.own, Source.DYNAMIC_BROKER),
    ):
        if name in changed:
            synonyms.insert(0, Synonym(name, changed[name], source))
    return synonyms


def _shown(
    setting: Setting, synonyms: Sequence[Synonym], *, is_read_only: bool, is_hidden: bool
) -> ShownConfig:
    hidden = is_hidden or is_sensitive(setting.name)
    if hidden:
        synonyms = [one._replace(value=None) for one in synonyms]
    _, value, source = synonyms[0]
    return ShownConfig(
        setting.name,
        value,
        source,
        is_read_only,
        hidden,
        setting.kind,
        setting.documentation,
        synonyms,
    )
