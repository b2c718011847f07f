"""A store in memory that a test makes wait, and damages."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from logstore.errors import NoRoom
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.ports.objects import Buffer


class HeldStore(MemoryStore):
    """A store whose creates wait while it is held. It counts ranged reads, and may damage them."""

    def __init__(self, objects: MemoryObjects) -> None:
        super().__init__(objects)
        self.reads: Counter[str] = Counter()
        self.damage: dict[str, Iterator[Callable[[bytes], bytes]]] = {}
        """By key, how its next ranged reads come; behind the last one, as they are."""
        self.is_full = False
        """Whether creates find no room."""
        self._let_go = asyncio.Event()
        self._let_go.set()

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        await self._let_go.wait()
        if self.is_full:
            raise NoRoom("no room to create: free some space")
        await super().create(key, parts)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        self.reads[key] += 1
        data = await super().get_range(key, start, length)
        return next(self.damage.get(key, iter(())), bytes)(data)

    def hold(self) -> None:
        self._let_go.clear()

    def let_go(self) -> None:
        self._let_go.set()
