"""Which client software is connected, by the name and version that ApiVersions gives (KIP-511)."""

from collections import Counter
from typing import NamedTuple

CHARACTERS_MAX = 64
"""A label is cut there: a client may give any length."""

VERSIONS_MAX = 50
"""Names with versions that are shown; the least used of more are `other`."""


class Software(NamedTuple):
    name: str
    version: str

    @staticmethod
    def of(name: str, version: str) -> "Software":
        """Of texts that KIP-511's pattern allows: letters, digits, `-` and `.`."""
        return Software(name[:CHARACTERS_MAX], version[:CHARACTERS_MAX])


UNKNOWN = Software("unknown", "unknown")
"""Of a connection without ApiVersions of version 3 or later."""
OTHER = Software("other", "other")


class ConnectedSoftware:
    """How many connections each has. A connection counts from its first ApiVersions on."""

    def __init__(self) -> None:
        self._counts: Counter[Software] = Counter()

    def changed(self, before: Software | None, now: Software | None) -> None:
        """A connection that was `before` is `now`; None: it is not there."""
        if before is not None:
            self._counts[before] -= 1
            if self._counts[before] <= 0:
                del self._counts[before]
        if now is not None:
            self._counts[now] += 1

    def shown(self) -> dict[Software, int]:
        """The most used ones, and the sum of all others."""
        listed = self._counts.most_common(VERSIONS_MAX)
        shown = dict(listed)
        rest = self._counts.total() - sum(count for _, count in listed)
        if rest:
            shown[OTHER] = shown.get(OTHER, 0) + rest
        return shown
