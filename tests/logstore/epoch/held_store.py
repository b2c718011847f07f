"""A store in memory that a test makes wait."""

import asyncio
from collections.abc import Sequence

from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.ports.objects import Buffer


class HeldStore(MemoryStore):
    """Answers no put while it is held."""

    def __init__(self, objects: MemoryObjects) -> None:
        super().__init__(objects)
        self.lets_go = asyncio.Event()
        self.lets_go.set()

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        await self.lets_go.wait()
        await super().create(key, parts)
