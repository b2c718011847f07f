"""The watch over the registry: what it reads is never older than what this broker did meanwhile."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from logstore.log.view import News
from logstore.log.watch import EVERYTHING_S, Watch
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.registry.store import Row
from logstore.rows import TOPIC
from logstore.testing.virtual_loop import run
from tests.logstore.written import WrittenLog


class EditedRows(MemoryRows):
    """Rows that this broker changes while it reads them for the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.read_count = 0
        self.edit_count = 0

    async def query(
        self, pk: str, prefix: str = "", *, after: str | None = None, limit: int = 1000
    ) -> Sequence[tuple[str, Row]]:
        if pk == TOPIC:
            self.read_count += 1
            self.edit_count += self.read_count == 1
        return await super().query(pk, prefix, after=after, limit=limit)


def test_what_was_read_before_an_edit_of_our_own_is_read_again() -> None:
    """It would undo the edit: a topic just made would be dropped, then led a second time."""

    async def scenario() -> None:
        usual = WrittenLog().performer
        rows = EditedRows()
        registry = RetryingRegistry(rows, lambda: "write", usual.clock, usual.chance)
        heard: list[tuple[int, News]] = []
        watch = Watch(
            replace(usual, registry=registry),
            version=lambda: 0,
            edit_count=lambda: rows.edit_count,
            on_news=lambda news: heard.append((rows.read_count, news)),
            on_brokers=lambda _: None,
        )
        fenced = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watch.run(fenced))
            await usual.clock.sleep_s(1.3 * EVERYTHING_S)
            fenced.set()
        first, *_ = heard
        assert first[0] == 2
        assert all(news.is_everything for _, news in heard)

    run(scenario())
