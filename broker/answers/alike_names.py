"""Names of topics that metrics cannot tell apart, since '.' and '_' look alike there. Pure."""

from collections.abc import Iterable


class AlikeNames:
    """All topics that exist, found by a name like theirs; a look-up costs the same for any number.

    Topics made by earlier versions of Kafka's tools may be alike: the newest is named.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._by_plain = {_plain(name): name for name in names}

    def add(self, name: str) -> None:
        self._by_plain[_plain(name)] = name

    def remove(self, name: str) -> None:
        if self._by_plain.get(_plain(name)) == name:
            del self._by_plain[_plain(name)]

    def find(self, name: str) -> str | None:
        """The topic with the same name but for '.' and '_', or the very name."""
        return self._by_plain.get(_plain(name))


def _plain(name: str) -> str:
    return name.replace(".", "_")
