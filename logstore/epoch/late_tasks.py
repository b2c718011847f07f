"""Tasks that a timer, or a request of the last moment, begins in a process that is ending."""

import asyncio
from collections.abc import Coroutine
from typing import Any


def start_unless_ended(tasks: asyncio.TaskGroup, work: Coroutine[Any, Any, object]) -> bool:
    """Start a task of the group. Returns False, and does nothing, where the group has ended."""
    try:
        tasks.create_task(work)
    except RuntimeError:
        work.close()
        return False
    return True
