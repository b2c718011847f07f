"""Settings of a broker: its process, its store, defaults of its topics.

A name is Kafka's where Kafka has one. In TOML a name may be spelt with its dots, quoted, or as
nested tables: `[logstore.flush.interval] ms = 50`. `sources.py` reads them.
"""

from collections.abc import Collection, Mapping

from logstore.config.address_overrides import OVERRIDES, parse_overrides
from logstore.config.compaction_interval import EVERY, parse_every
from logstore.config.kinds import Setting, by_name, unknown_name
from logstore.config.process import BY_STORE, PROCESS_SETTINGS
from logstore.config.storage import PREFIX as STORAGE_PREFIX
from logstore.config.storage import STORAGE_SETTINGS
from logstore.config.topics import (
    BROKER_NAMES,
    BUILTIN_DEFAULTS,
    CLEANING_NAMES,
    TOPIC_SETTINGS,
)

_MINUTE_MS = 60_000

RETENTION_MS = "log.retention.ms"


def _topic_default(topic_name: str, name: str) -> Setting:
    model = TOPIC_SETTINGS[topic_name]
    return Setting(
        name=name,
        kind=model.kind,
        default=model.default,
        documentation=f"Default of {topic_name}. {model.documentation}",
        at_least=model.at_least,
        at_most=model.at_most,
        one_of=model.one_of,
    )


BROKER_SETTINGS: Mapping[str, Setting] = by_name(
    (
        *PROCESS_SETTINGS,
        *STORAGE_SETTINGS.values(),
        *(_topic_default(topic, name) for topic, name in BROKER_NAMES.items()),
    )
)


class BrokerSettings:
    """Effective settings: given values over defaults."""

    def __init__(
        self, given: Mapping[str, str] | None = None, *, hidden: Collection[str] = ()
    ) -> None:
        """Raises `InvalidConfig` for a name or value that does not exist.

        No client is shown the values of `hidden` names.
        """
        self.given = dict(given or {})
        self.hidden = frozenset(hidden)
        for name, text in self.given.items():
            setting = BROKER_SETTINGS.get(name)
            if setting is None:
                raise unknown_name(name, BROKER_SETTINGS)
            setting.parse(text)
        parse_overrides(self.text(OVERRIDES))
        parse_every(self.text(EVERY))
        self._take_retention("log.retention.minutes", _MINUTE_MS)
        self._take_retention("log.retention.hours", 60 * _MINUTE_MS)
        self.topic_defaults: Mapping[str, str] = {
            name: self.text(BROKER_NAMES[name]) if name in BROKER_NAMES else setting.default
            for name, setting in TOPIC_SETTINGS.items()
        }

    def _take_retention(self, name: str, unit_ms: int) -> None:
        """The finest unit given wins, as in Kafka; it is shown as milliseconds."""
        if name in self.given and RETENTION_MS not in self.given:
            count = int(self.given[name])
            self.given[RETENTION_MS] = str(-1 if count < 0 else count * unit_ms)
            if name in self.hidden:
                self.hidden |= {RETENTION_MS}

    @property
    def published_topic_defaults(self) -> dict[str, str]:
        """Of `topic_defaults` those that programs beside brokers need, where they are not the
        product's own.
        """
        return {
            name: self.topic_defaults[name]
            for name in CLEANING_NAMES
            if self.topic_defaults[name] != BUILTIN_DEFAULTS[name]
        }

    @property
    def storage(self) -> dict[str, str]:
        """The given `storage.*` settings."""
        return {name: text for name, text in self.given.items() if name.startswith(STORAGE_PREFIX)}

    def text(self, name: str) -> str:
        return self.given.get(name, BROKER_SETTINGS[name].default)

    def number(self, name: str, by_store: int = 0) -> int:
        """An integer setting; `by_store` is the default of one that depends on the store."""
        text = self.text(name)
        if text == BY_STORE:
            return by_store
        value = BROKER_SETTINGS[name].parse(text)
        assert isinstance(value, int), name
        return value

    def flag(self, name: str) -> bool:
        return BROKER_SETTINGS[name].parse(self.text(name)) is True
