"""Settings of a broker: its process, its store, defaults of its topics.

A name is Kafka's where Kafka has one. In TOML a name may be spelt with its dots, quoted, or as
nested tables: `[logstore.flush.interval] ms = 50`. `sources.py` reads them.
"""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from logstore.config.address_overrides import OVERRIDES, parse_overrides
from logstore.config.authorizer_settings import AUTHORIZER_SETTINGS, check_authorizer
from logstore.config.changeable import CHANGEABLE
from logstore.config.compaction_interval import EVERY, parse_every
from logstore.config.kinds import InvalidConfig, Setting, by_name, is_sensitive, unknown_name
from logstore.config.listener_security import PROTOCOL_MAP, parse_protocol_map
from logstore.config.listener_settings import SettingsByName, name_for
from logstore.config.login_settings import LOGIN_SETTINGS
from logstore.config.process import BY_STORE, PROCESS_SETTINGS
from logstore.config.storage import PREFIX as STORAGE_PREFIX
from logstore.config.storage import STORAGE_SETTINGS
from logstore.config.tls import TLS_SETTINGS
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


BROKER_SETTINGS: Mapping[str, Setting] = SettingsByName(
    by_name(
        (
            *PROCESS_SETTINGS,
            *AUTHORIZER_SETTINGS,
            *LOGIN_SETTINGS,
            *TLS_SETTINGS,
            *STORAGE_SETTINGS.values(),
            *(_topic_default(topic, name) for topic, name in BROKER_NAMES.items()),
        )
    )
)


def check_changed(name: str, text: str) -> None:
    """Raises `InvalidConfig` for a setting, or a value, that a running broker does not take."""
    setting = BROKER_SETTINGS.get(name)
    if setting is None:
        raise unknown_name(name, BROKER_SETTINGS)
    if name not in CHANGEABLE:
        raise InvalidConfig(
            f"settings of a broker that cannot be changed while it runs: {name}; "
            "start it with --set"
        )
    setting.parse(text)
    if name == OVERRIDES:
        parse_overrides(text)


class BrokerSettings:
    """Effective settings: changed values over given ones over defaults."""

    def __init__(
        self,
        given: Mapping[str, str] | None = None,
        *,
        hidden: Collection[str] = (),
        at_most: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Raises `InvalidConfig` for a name or value that does not exist.

        No client is shown the values of `hidden` names. `at_most`: by name of a number, what this
        process allows whatever is given.
        """
        self.given = dict(given or {})
        self.hidden = frozenset((*hidden, *filter(is_sensitive, self.given)))
        self.own: Mapping[str, str] = {}
        """Values of this broker that were changed while it runs."""
        self.everywhere: Mapping[str, str] = {}
        """The same of all brokers; its own prevail."""
        self._at_most = at_most
        self._callbacks: list[Callable[[], None]] = []
        for name, text in self.given.items():
            setting = BROKER_SETTINGS.get(name)
            if setting is None:
                raise unknown_name(name, BROKER_SETTINGS)
            setting.parse(text)
        parse_overrides(self.text(OVERRIDES))
        parse_every(self.text(EVERY))
        parse_protocol_map(self.text(PROTOCOL_MAP))
        check_authorizer(self.text)
        self._take_retention("log.retention.minutes", _MINUTE_MS)
        self._take_retention("log.retention.hours", 60 * _MINUTE_MS)
        self._topic_defaults: dict[str, str] = {}
        self._take_topic_defaults()
        self.topic_defaults: Mapping[str, str] = MappingProxyType(self._topic_defaults)
        """As they are now: they follow changes."""

    def copy(self) -> "BrokerSettings":
        """Without changes, and without those who are called back at them."""
        return BrokerSettings(self.given, hidden=self.hidden, at_most=self._at_most)

    def change(
        self, everywhere: Mapping[str, str], own: Mapping[str, str]
    ) -> Mapping[str, InvalidConfig]:
        """Take these values from now on, and call back; errors by name.

        Instead of a value that is refused, the one before stays.
        """
        errors: dict[str, InvalidConfig] = {}
        before = (self.everywhere, self.own)
        self.everywhere, self.own = (
            _taken(changed, known, errors)
            for changed, known in zip((everywhere, own), before, strict=True)
        )
        if (self.everywhere, self.own) != before:
            self._take_topic_defaults()
            for callback in self._callbacks:
                callback()
        return errors

    def is_changed(self, name: str) -> bool:
        """Whether its value is none that was given at the start."""
        return name in self.own or name in self.everywhere

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call back now, and after each change: values that were read before may be others."""
        self._callbacks.append(callback)
        callback()

    def _take_topic_defaults(self) -> None:
        for name, setting in TOPIC_SETTINGS.items():
            broker_name = BROKER_NAMES.get(name)
            default = setting.default if broker_name is None else self.text(broker_name)
            self._topic_defaults[name] = default

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
        for values in (self.own, self.everywhere, self.given):
            if name in values:
                return values[name]
        return BROKER_SETTINGS[name].default

    def number(self, name: str, by_store: int = 0) -> int:
        """An integer setting; `by_store` is the default of one that depends on the store."""
        text = self.text(name)
        if text == BY_STORE:
            return by_store
        value = BROKER_SETTINGS[name].parse(text)
        assert isinstance(value, int), name
        return min(value, self._at_most.get(name, value))

    def flag(self, name: str) -> bool:
        return BROKER_SETTINGS[name].parse(self.text(name)) is True

    def of_listener(self, listener: str) -> "ListenerSettings":
        return ListenerSettings(self, listener)


class ListenerSettings:
    """Settings as they are for one listener: its own values over those of all listeners."""

    def __init__(self, settings: BrokerSettings, listener: str) -> None:
        self._settings = settings
        self.listener = listener

    def text(self, name: str) -> str:
        return self._settings.text(self._name(name))

    def number(self, name: str) -> int:
        return self._settings.number(self._name(name))

    def flag(self, name: str) -> bool:
        return self._settings.flag(self._name(name))

    def _name(self, name: str) -> str:
        own = name_for(self.listener, name)
        return own if own in self._settings.given else name


def _taken(
    changed: Mapping[str, str], known: Mapping[str, str], errors: dict[str, InvalidConfig]
) -> Mapping[str, str]:
    taken = {}
    for name, text in changed.items():
        try:
            check_changed(name, text)
            taken[name] = text
        except InvalidConfig as error:
            errors[name] = error
            if name in known:
                taken[name] = known[name]
    return taken
