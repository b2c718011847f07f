"""`logstore inspect` of a segment with batches that were copied for a Spark sink."""

import random
from pathlib import Path
from typing import Any

from logstore.cli.inspect.segment_view import SegmentView, view_segment
from logstore.formats.staging_keys import SinkBatch
from logstore.objects.metered import StoreCounts
from logstore.protocol.chain.identity import ensure_identity
from logstore.runners.step_runner import BlockingStepRunner
from logstore.stores.location import DirectoryLocation
from logstore.testing.virtual_loop import run
from logstore.wiring.open import ReadableLog
from tests.logstore.epoch.test_adopt import SINK, leader_of, staged
from tests.logstore.written import WrittenLog, committed


def test_an_adopt_end_shows_its_sink_and_how_much_is_copied() -> None:
    async def scenario() -> SegmentView:
        written = WrittenLog()
        async with written.life() as log:
            leader = await leader_of(log)
            appended = leader.adopt(
                SinkBatch(SINK, 7), staged(0, 0, 2), batches_done=0, batches_total=3
            )
            await committed(log, appended.seq)
            rows: Any = None
            readable = ReadableLog(
                DirectoryLocation(Path("/memory")),
                BlockingStepRunner(written.objects, written.reads, random.Random(0)),
                await written.runner.run(ensure_identity("memory")),
                StoreCounts(),
                rows,
            )
            return view_segment(readable, log.epoch, appended.seq, {leader.topic_id: "orders"})

    view = run(scenario())
    assert view.findings == []
    (end,) = [line for line in view.entries if line.kind == "adopt_end"]
    assert (end.topic, end.base_offset, end.last_offset, end.records) == ("orders", 0, 1, 0)
    assert end.flags == [f"sink {SINK.hex()}", "batch 7", "2 of 3 copied"]
    assert (end.producer_id, end.base_sequence, end.max_timestamp) == (-1, -1, -1)
