"""Configs as clients see them: each with its value, source and description. Pure.

A topic's value is its own, else the broker's setting of the matching name, else the default; these
are its synonyms, in this order. Broker settings are given at its start and cannot be changed while
it runs. Values that must stay secret are null.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from logstore.config.broker import BROKER_SETTINGS, BrokerSettings
from logstore.config.kinds import Setting, SettingKind, is_sensitive
from logstore.config.process import BY_STORE
from logstore.config.topics import BROKER_NAMES, TOPIC_SETTINGS


class Source(IntEnum):
    """Kafka's `DescribeConfigsResponse.ConfigSource`."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


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
        is_hidden = synonyms[0].name in broker.hidden
        shown.append(_shown(setting, synonyms, is_read_only=False, is_hidden=is_hidden))
    return shown


def show_broker_configs(broker: BrokerSettings) -> list[ShownConfig]:
    return [
        _shown(
            setting,
            _of_broker(name, broker),
            is_read_only=True,
            is_hidden=name in broker.hidden,
        )
        for name, setting in BROKER_SETTINGS.items()
    ]


def _of_broker(name: str, broker: BrokerSettings) -> list[Synonym]:
    setting = BROKER_SETTINGS[name]
    # A setting that depends on the store has no default to show; an empty number means none.
    default = None if setting.default == BY_STORE else setting.default
    synonyms = [Synonym(name, default, Source.DEFAULT)]
    if name in broker.given:
        value = None if name in broker.hidden else broker.given[name]
        synonyms.insert(0, Synonym(name, value, Source.STATIC_BROKER))
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
