"""Names of topics that metrics cannot tell apart, since '.' and '_' look alike there. Pure.

These are the topics that one broker knows. Two brokers that create `a.b` and `a_b` at the same
moment do not know of each other's, and both are created: metrics then show them as one.
"""

from collections.abc import Iterable


class AlikeNames:
    """All topics that exist, found by a name like theirs; a look-up costs the same for any number.

    Topics that exist may be alike, as the ones of earlier versions of Kafka's tools: the newest is
    named.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._by_plain: dict[str, tuple[str, ...]] = {}
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        self._by_plain[_plain(name)] = (*self._without(name), name)

    def remove(self, name: str) -> None:
        others = self._without(name)
        if others:
            self._by_plain[_plain(name)] = others
        else:
            self._by_plain.pop(_plain(name), None)

    def find(self, name: str) -> str | None:
        """The topic with the same name but for '.' and '_', or the very name."""
        alike = self._by_plain.get(_plain(name))
        return None if alike is None else alike[-1]

    def _without(self, name: str) -> tuple[str, ...]:
        alike = self._by_plain.get(_plain(name), ())
        return tuple(other for other in alike if other != name)


def _plain(name: str) -> str:
    return name.replace(".", "_")
