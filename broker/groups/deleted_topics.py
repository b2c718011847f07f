"""Deletes committed offsets together with their topics, as Kafka's coordinators do.

    topic leaves the catalog, or an offset names a topic that is not served
        → a record in the store says that it is deleted → its offsets are deleted, in slices

The catalog alone is no proof: rows can be lost, or put back from an older copy. The record of the
deletion is final (`formats.topic_record`). It is written before the deletion is answered, but after
the topic leaves the catalog, so the first look may come too early: it is repeated for some minutes.
After that the next sweep of old offsets suspects the topic again.

Cost: a LIST and a GET for each deleted topic with offsets here, none otherwise.
"""

import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from broker.groups.coordinator import Coordinator
from broker.groups.decisions.deleted_topics import Deletions, IdOf
from logstore.errors import LogstoreError
from logstore.ports.clock import Clock
from logstore.protocol.topics.witnesses import read_deletions
from logstore.runners.step_runner import StepRunner

FIRST_WAIT_S, WAIT_MAX_S = 0.25, 60.0
LOOKS_MAX = 11
"""Some four minutes in all."""
LOOKED_UP_AT_ONCE = 50
SUSPECTS_MAX = 10_000

logger = logging.getLogger(__name__)


class DroppedTopic(Protocol):
    """A topic that left the catalog."""

    @property
    def name(self) -> str: ...
    @property
    def topic_id(self) -> bytes: ...


@dataclass(slots=True)
class _Suspect:
    """A topic that may be deleted. `name` and `seen_ms` are known if this broker served it."""

    name: str | None
    seen_ms: int
    look_at_s: float
    look_count: int = 0


class DeletedTopics:
    def __init__(
        self,
        runner: StepRunner,
        clock: Clock,
        *,
        start: Callable[[Coroutine[Any, Any, None]], object],
        id_of: IdOf,
        loaded: Callable[[], Sequence[Coordinator]],
    ) -> None:
        """`start` runs a coroutine in the background; raises `RuntimeError` once the broker ends.

        `id_of` looks in this broker's catalog; `loaded` are its coordinators.
        """
        self._runner = runner
        self._clock = clock
        self._start = start
        self._id_of = id_of
        self._loaded = loaded
        self._suspects: dict[bytes, _Suspect] = {}
        self._is_running = False

    def dropped(self, topic: DroppedTopic) -> None:
        """A topic left the catalog of this broker."""
        if any(topic.name in one.states.topic_offset_counts for one in self._loaded()):
            seen_ms, now_s = self._clock.now_ms(), self._clock.monotonic_s()
            self._add(topic.topic_id, _Suspect(topic.name, seen_ms, now_s))

    async def suspect(self, coordinators: Iterable[Coordinator]) -> None:
        """Find offsets of topics that are not served: after a start, and now and then."""
        for coordinator in coordinators:
            for topic_id in await coordinator.suspects(self._id_of):
                if topic_id not in self._suspects:
                    self._add(topic_id, _Suspect(None, 0, self._clock.monotonic_s()))

    async def _run(self) -> None:
        """Until no topic is suspected any more."""
        try:
            while self._suspects:
                next_s = min(one.look_at_s for one in self._suspects.values())
                await self._clock.sleep_s(max(0.0, next_s - self._clock.monotonic_s()))
                await self._settle_due()
        finally:
            self._is_running = False

    async def _settle_due(self) -> None:
        """Look at the records of the suspects that are due, and delete what is void."""
        now_s = self._clock.monotonic_s()
        due = [topic_id for topic_id, one in self._suspects.items() if one.look_at_s <= now_s]
        for at in range(0, len(due), LOOKED_UP_AT_ONCE):
            some = due[at : at + LOOKED_UP_AT_ONCE]
            try:
                deleted = await self._runner.run(read_deletions(some))
            except LogstoreError as error:
                logger.debug("records of topics cannot be read: %s", error)
                deleted = {}
            await self._settle(some, deleted)

    async def _settle(self, looked_up: Sequence[bytes], deleted: Mapping[bytes, object]) -> None:
        deletions = self._deletions(deleted)
        for coordinator in self._loaded() if deleted else ():
            await coordinator.drop_offsets(deletions)
        for topic_id in looked_up:
            suspect = self._suspects[topic_id]
            suspect.look_count += 1
            if topic_id in deleted or suspect.look_count == LOOKS_MAX:
                del self._suspects[topic_id]
            else:
                wait_s = min(FIRST_WAIT_S * 2 ** (suspect.look_count - 1), WAIT_MAX_S)
                suspect.look_at_s = self._clock.monotonic_s() + wait_s

    def _deletions(self, deleted: Mapping[bytes, object]) -> Deletions:
        seen_ms: dict[str, int] = {}
        for topic_id in deleted:
            suspect = self._suspects[topic_id]
            if suspect.name is not None:
                seen_ms[suspect.name] = max(suspect.seen_ms, seen_ms.get(suspect.name, 0))
        return Deletions(frozenset(deleted), seen_ms)

    def _add(self, topic_id: bytes, suspect: _Suspect) -> None:
        if len(self._suspects) < SUSPECTS_MAX:  # else the next sweep finds it
            self._suspects[topic_id] = suspect
        if not self._is_running:
            with suppress(RuntimeError):
                self._is_running = True
                self._start(self._run())
