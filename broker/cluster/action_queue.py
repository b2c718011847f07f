"""The controller's tasks under way: bounded, one per action, repeated no sooner than needed."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Hashable
from typing import Any

from logstore.errors import LogstoreError
from logstore.ports.clock import Clock

TASKS_MAX = 8
TASK_S_MAX = 120.0
AGAIN_FIRST_S, AGAIN_MAX_S = 1.0, 60.0

logger = logging.getLogger(__name__)

Work = Callable[[], Coroutine[Any, Any, None]]


class ActionQueue:
    """`may_act` is asked again when a task's turn comes; `on_failure` counts."""

    def __init__(
        self,
        tasks: asyncio.TaskGroup,
        clock: Clock,
        may_act: Callable[[], bool],
        on_failure: Callable[[], None],
    ) -> None:
        self._tasks = tasks
        self._clock = clock
        self._may_act = may_act
        self._on_failure = on_failure
        self._turns = asyncio.Semaphore(TASKS_MAX)
        self._under_way: set[Hashable] = set()
        self._failed: dict[Hashable, int] = {}
        self._not_before_s: dict[Hashable, float] = {}

    @property
    def is_idle(self) -> bool:
        return not self._under_way

    def start(self, key: Hashable, work: Work, *, again_s: float = 0.0) -> bool:
        """False: it is under way, or was done within `again_s`, or has just failed."""
        now_s = self._clock.monotonic_s()
        if key in self._under_way or now_s < self._not_before_s.get(key, 0.0):
            return False
        self._not_before_s = {
            known: until_s for known, until_s in self._not_before_s.items() if until_s > now_s
        }
        self._failed = {
            known: count for known, count in self._failed.items() if known in self._not_before_s
        } | ({key: self._failed[key]} if key in self._failed else {})
        self._under_way.add(key)
        self._tasks.create_task(self._run(key, work, again_s))
        return True

    async def _run(self, key: Hashable, work: Work, again_s: float) -> None:
        try:
            async with self._turns, asyncio.timeout(TASK_S_MAX):
                if self._may_act():
                    await work()
        except (LogstoreError, TimeoutError) as error:
            self._on_failure()
            count = self._failed[key] = self._failed.get(key, 0) + 1
            again_s = min(AGAIN_FIRST_S * 2.0 ** min(count - 1, 16), AGAIN_MAX_S)
            logger.warning("%s failed, again in %g s: %s", key, again_s, error or "time is up")
        else:
            self._failed.pop(key, None)
        finally:
            self._under_way.discard(key)
        self._not_before_s[key] = self._clock.monotonic_s() + again_s
