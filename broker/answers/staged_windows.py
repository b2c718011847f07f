"""Reads the bytes of a window of staged batches, and checks them.

All reads of a broker share `store_reads`. A window has thousands of bites, so what is done for each
of them is done in a thread.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from typing import Any, NamedTuple

from broker.answers import staged_checks
from broker.answers.broker import Broker
from broker.answers.decisions.topic_rules import TopicRules
from broker.answers.staged_checks import CheckedPart, PartOutcome, ReadPart, check_in_slices
from logstore.errors import Corrupt, LogstoreError
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.sinks.adopt_plan import Bite, StagedRead, bytes_of, parts_of, reads_of
from logstore.protocol.sinks.staged_reads import ReadManifest, read_staged_bytes

READS_AT_ONCE = 16
"""Of one request."""


class WindowPart(NamedTuple):
    partition: TopicPartition
    checked: CheckedPart | LogstoreError
    """The error names the object."""


async def read_window(
    broker: Broker,
    bites: Sequence[Bite],
    read: ReadManifest,
    rules_of: Callable[[TopicPartition], TopicRules],
) -> AsyncGenerator[list[WindowPart], None]:
    """Yields the parts of a window, some at a time, each partition's in order: those are to be
    appended before the next are taken. Raises as stores do, `Corrupt` where an object is gone."""
    parts = await broker.loop.run_in_executor(None, parts_of, bites)
    settled: list[WindowPart] = []
    async for outcomes in _read_and_check(broker, bites, parts, read, rules_of):
        for number, checked in outcomes:
            part = parts[number]
            if not isinstance(checked, Corrupt):
                settled.append(WindowPart(part[0].partition, checked))
                continue
            # That is for good, so it is read once more: it may have come on the way.
            yield settled
            settled = []
            async for again in _read_and_check(broker, part, [part], read, rules_of):
                yield [WindowPart(part[0].partition, one.checked) for one in again]
        yield settled
        settled = []


async def _read_and_check(
    broker: Broker,
    bites: Sequence[Bite],
    parts: Sequence[Sequence[Bite]],
    read: ReadManifest,
    rules_of: Callable[[TopicPartition], TopicRules],
) -> AsyncGenerator[list[PartOutcome], None]:
    """Yields outcomes slice by slice. `bites`: those of all parts, neighbours of an object side by
    side."""
    loop, key = broker.loop, read.manifest.key
    reads, numbers = await loop.run_in_executor(None, reads_of, bites, key)
    fetched = await _fetch(broker, reads)
    fetched[-1] = memoryview(read.data), 0
    rules = [rules_of(part[0].partition) for part in parts]
    created_ms = read.manifest.header.created_ms

    def begin() -> Iterator[list[PartOutcome]]:
        data = {
            (bite.partition, bite.first): bytes_of(bite.source, *fetched[number])
            for bite, number in zip(bites, numbers, strict=True)
        }
        found = [
            ReadPart([(bite, data[bite.partition, bite.first]) for bite in part], one)
            for part, one in zip(parts, rules, strict=True)
        ]
        return check_in_slices(found, created_ms, slice_bytes=staged_checks.SLICE_BYTES)

    slices = await loop.run_in_executor(None, begin)
    while True:
        async with broker.record_checks:
            outcomes = await loop.run_in_executor(None, next, slices, None)
        if outcomes is None:
            return
        yield outcomes


async def _fetch(broker: Broker, reads: Sequence[StagedRead]) -> dict[int, tuple[memoryview, int]]:
    """The bytes of each read by its number, and where in their object they begin."""
    fetched: dict[int, tuple[memoryview, int]] = {}

    async def fetch(number: int, one: StagedRead) -> None:
        steps = read_staged_bytes(one.key, one.start, one.end - one.start)
        fetched[number] = memoryview(await broker.log.runner.run(steps)), one.start

    await _side_by_side(broker, [fetch(*one) for one in enumerate(reads)])
    return fetched


async def _side_by_side(broker: Broker, work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """All of `work`, some at a time; the first error ends it and is raised."""
    waiting = iter(work)

    async def take_turns() -> None:
        for one in waiting:
            async with broker.store_reads:
                await one

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(READS_AT_ONCE, len(work))):
                group.create_task(take_turns())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    finally:
        for one in waiting:
            one.close()
