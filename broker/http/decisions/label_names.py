"""Which names of clients' making become labels: the first that came, up to a bound. Pure.

A name that is shown stays so until it is gone, so that its series have no gaps. All the others go
by one name, and so does a topic or group that is really called that.
"""

from collections.abc import Iterable, KeysView

OTHER = "other"
LABEL_CHARACTERS_MAX = 249
"""As long as a topic's name may be; a group's may be longer and is cut."""


class ShownNames:
    def __init__(self, names_max: int) -> None:
        self._names_max = names_max
        self._shown: dict[str, None] = {}

    def renew(self, names: KeysView[str] | Iterable[str]) -> None:
        """`names` are all there are now."""
        alive = dict.fromkeys(names)
        self._shown = {name: None for name in self._shown if name in alive}
        for name in alive:
            if len(self._shown) >= self._names_max:
                break
            self._shown[name] = None

    def __contains__(self, name: str) -> bool:
        return name in self._shown

    def label(self, name: str) -> str:
        return name[:LABEL_CHARACTERS_MAX] if name in self._shown else OTHER
