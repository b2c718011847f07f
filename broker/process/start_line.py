"""The line at a start: version, format level, store, registry, settings that were changed. Pure.

No secret is in it: values that are hidden are not shown, nor is a password in a URL.
"""

import re
from collections.abc import Mapping

from logstore.config.broker import BROKER_SETTINGS, BrokerSettings
from logstore.config.kinds import is_sensitive
from logstore.config.printed import HIDDEN

TEXT = "serving: version=%s format_level=%s store=%s registry=%s settings=%s"

_IDENTITY = "storage.profile"
"""Names an account of this machine: it is of no use to who reads a log, and may be to others."""

_LOGIN = re.compile(r"(?<=://)[^/@\s]+@")


def start_values(
    version: str, level: int, store: str, registry: str, settings: BrokerSettings
) -> tuple[object, ...]:
    """The values of `TEXT`, in order."""
    changed = {
        name: HIDDEN if name == _IDENTITY or name in settings.hidden or is_sensitive(name) else text
        for name, text in settings.given.items()
        if text != BROKER_SETTINGS[name].default
    }
    return version, level, without_login(store), without_login(registry), _joined(changed)


def without_login(url: str) -> str:
    """The URL without user and password."""
    return _LOGIN.sub("", url)


def _joined(changed: Mapping[str, str]) -> str:
    texts = [f"{name}:{without_login(text)}" for name, text in sorted(changed.items())]
    return ",".join(texts) or "defaults"
