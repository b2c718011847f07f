"""Settings that one listener has alone: listener.name.LISTENER.SETTING, as in Kafka. Pure.

    listener.name.external.ssl.client.auth = required

The listener's name is in small letters there. Settings by which a listener is secured may be given
so, others not. In the environment: `LOGSTORE_LISTENER_NAME_EXTERNAL_SSL_CLIENT_AUTH`.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from logstore.config.kinds import InvalidConfig, Setting

PREFIX = "listener.name."
_OF_LISTENERS = ("ssl.", "sasl.", "connections.max.reauth.ms")


class SettingsByName(dict[str, Setting]):
    """Settings by name; those of single listeners are found, and not listed."""

    def __missing__(self, name: str) -> Setting:
        _, plain = split(name)
        if plain is None or not dict.__contains__(self, plain):
            raise KeyError(name)
        return replace(self[plain], name=name)

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or (
            isinstance(name, str) and dict.__contains__(self, split(name)[1])
        )

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default


def name_for(listener: str, name: str) -> str:
    """The name by which one listener has a setting."""
    return f"{PREFIX}{listener.lower()}.{name}"


def split(name: str) -> tuple[str, str | None]:
    """The listener's name in capitals, and the setting's; None: no setting that a listener may
    have alone.
    """
    if not name.startswith(PREFIX):
        return "", None
    listener, _, plain = name.removeprefix(PREFIX).partition(".")
    if not listener or listener != listener.lower() or not plain.startswith(_OF_LISTENERS):
        return "", None
    return listener.upper(), plain


def check_listeners(given: Iterable[str], listeners: Iterable[str]) -> None:
    """Raises `InvalidConfig` for a setting of a listener that there is not.

    With its name misspelt, what was to secure a listener would have no effect.
    """
    known = set(listeners)
    for name in given:
        listener, plain = split(name)
        if plain is not None and listener not in known:
            raise InvalidConfig(
                f"{name} is of a listener that there is not; --listen has: "
                f"{', '.join(sorted(known))}"
            )
