"""Takes back objects that are missing and that the store still has.

Deletion can err, and so can people: a store keeps what is deleted for a day (`ports.trash`). What
comes back is everything deleted below the prefixes that an error names. Of a chain this may be
more than is missing, segments that were trimmed in the last day; they are trimmed again. A key
that was created twice gets the object that was created first.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from logstore.errors import NotFound
from logstore.ports.trash import Trash


class TrashQueries(Protocol):
    """A store's trash as restore asks it."""

    async def count(self, prefixes: Sequence[str]) -> int:
        """How many keys below `prefixes` could be taken back."""
        ...

    async def take_back(self, prefixes: Sequence[str]) -> Sequence[str]:
        """The keys below `prefixes` that have their objects again. Repeatable."""
        ...


class ThreadedTrash:
    """Beside an event loop."""

    def __init__(self, trash: Trash) -> None:
        self._trash = trash

    async def count(self, prefixes: Sequence[str]) -> int:
        return await asyncio.to_thread(deleted_below, self._trash, prefixes)

    async def take_back(self, prefixes: Sequence[str]) -> Sequence[str]:
        return await asyncio.to_thread(take_back, self._trash, prefixes)


def deleted_below(trash: Trash, prefixes: Sequence[str]) -> int:
    """As `TrashQueries.count`, blocking."""
    return len({one.key for prefix in prefixes for one in trash.deleted(prefix)})


def take_back(trash: Trash, prefixes: Sequence[str]) -> list[str]:
    """As `TrashQueries.take_back`, blocking. Raises what stores raise."""
    taken: list[str] = []
    for prefix in prefixes:
        for one in trash.deleted(prefix):
            with suppress(NotFound):  # purged since it was listed
                if trash.undelete(one):
                    taken.append(one.key)
    return taken
