"""The callbacks of a chain's writer: partition leaders and waiting requests."""

from collections.abc import Callable
from typing import Protocol

from logstore.errors import LogstoreError

Waiter = Callable[[LogstoreError | None], None]


class Appender(Protocol):
    """A partition's leader, as its chain's writer sees it."""

    def commit(self, end: int) -> None:
        """Everything below offset `end` is committed."""
        ...

    def checkpoint(self, seq: int, rows: bytearray) -> None:
        """Index `rows` went into the checkpoint at `seq`; keep them until it is durable."""
        ...

    def checkpoint_stored(self, seq: int) -> None: ...
