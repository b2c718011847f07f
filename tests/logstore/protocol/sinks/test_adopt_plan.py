"""The copying of a manifest: every batch once, in order, in pieces that are not too large."""

import gc
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Corrupt
from logstore.formats.manifest import (
    Manifest,
    ManifestHead,
    ManifestTopic,
    decode_manifest,
    encode_manifest,
)
from logstore.formats.segment import ENTRY_BYTES
from logstore.formats.staged_object import StagedBuilder, StagedIndex, StagedRef, decode_staged
from logstore.formats.staging_keys import SinkBatch, StagedName
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.sinks import adopt_plan, staged_counts
from logstore.protocol.sinks.adopt_plan import (
    Bite,
    CopyPlan,
    CopyWindow,
    bytes_of,
    parts_of,
    reads_of,
)
from logstore.protocol.sinks.staged_counts import StagedCounts
from logstore.records.encode import encode_batch, records_of
from logstore.slices import finish

TOPIC = bytes(range(16))
BATCH = SinkBatch(b"s" * 16, 3)
CLUSTER = b"c" * 16
PARTITIONS = 4

Task = Sequence[tuple[int, int]]
"""Batches: partition, and how many records."""

tasks = st.lists(
    st.lists(st.tuples(st.integers(0, PARTITIONS - 1), st.integers(1, 3)), max_size=6), max_size=9
)


class Staged:
    """A manifest, its objects, and all batches of each partition in the order of the manifest."""

    def __init__(self, objects: Sequence[Task], inline: Task) -> None:
        self.wanted: dict[TopicPartition, list[tuple[int, bytes]]] = {}
        self.data: dict[str, bytes] = {}
        self.indexes: list[StagedIndex] = []
        self.refs: list[StagedRef] = []
        for task, batches in enumerate(objects):
            if batches:
                self._put(task, self._built(batches))
        built = self._built(inline)
        self.rows = {one: sum(n for n, _ in some) for one, some in self.wanted.items()}
        self.manifest_data = self.encode(self.rows, built)
        self.manifest = self.decode(self.manifest_data)
        self.data[self.manifest.key] = self.manifest_data

    def _built(self, batches: Task) -> StagedBuilder:
        builder = StagedBuilder()
        for number, (partition, count) in enumerate(batches):
            value = struct.pack(">II", number, len(self.wanted))
            records = records_of([(None, value)] * count, timestamp=1)
            where, batch = TopicPartition(TOPIC, partition), encode_batch(records)
            builder.add(where, batch)
            self.wanted.setdefault(where, []).append((count, batch[61:]))
        return builder

    def _put(self, task: int, builder: StagedBuilder) -> None:
        nonce = bytes([task + 1]) * 16
        parts = builder.freeze(BATCH, cluster_id=CLUSTER, nonce=nonce, created_ms=1)
        data = b"".join(parts)
        ref = StagedRef(StagedName(task, 1, 0), nonce, len(data))
        self.refs.append(ref)
        self.data[ref.name.key(BATCH)] = data
        self.indexes.append(finish(decode_staged(data, BATCH, ref, cluster_id=CLUSTER)))

    def encode(self, rows: dict[TopicPartition, int], inline: StagedBuilder) -> bytes:
        head = ManifestHead(
            query_id="q",
            run_id="r",
            topics=[ManifestTopic("orders", TOPIC, PARTITIONS)] if rows else [],
            rows=rows,
            objects=self.refs,
        )
        return b"".join(
            encode_manifest(BATCH, head, inline, cluster_id=CLUSTER, nonce=b"m" * 16, created_ms=1)
        )

    def decode(self, data: bytes) -> Manifest:
        return decode_manifest(data, BATCH, cluster_id=CLUSTER)

    def counted(self, manifest: Manifest | None = None) -> StagedCounts:
        counts = StagedCounts(manifest or self.manifest)
        for index in self.indexes:
            finish(counts.add(index))
        finish(counts.finish())
        return counts

    def windows(self, counts: StagedCounts, done: dict[TopicPartition, int]) -> list[list[Bite]]:
        start = finish(counts.start_of(done))
        plan = CopyPlan(start.before, done)
        window, windows = CopyWindow(), []
        sources: list[Any] = [
            (ref.name.key(BATCH), index.header.body_at, index.ranges)
            for ref, index in zip(self.refs, self.indexes, strict=True)
        ][start.number :]
        manifest = self.manifest
        sources.append((manifest.key, manifest.header.body_at, manifest.inline))
        for bite in (bite for source in sources for bite in plan.bites(*source) if bite):
            if not window.has_room(bite):
                windows.append(window.bites)
                window = CopyWindow()
            window.add(bite)
        return [*windows, window.bites] if window.bites else windows

    def batches_of(self, window: Sequence[Bite]) -> dict[tuple[TopicPartition, int], list[bytes]]:
        """The bytes of each bite, by what `reads_of` asks for."""
        reads, numbers = reads_of(window, self.manifest.key)
        found: dict[tuple[TopicPartition, int], list[bytes]] = {}
        for bite, number in zip(window, numbers, strict=True):
            key, start, end = (self.manifest.key, 0, -1) if number < 0 else reads[number]
            data = self.data[key] if number < 0 else self.data[key][start:end]
            body = bytes_of(bite.source, memoryview(data), start)
            begin = bite.source.found.start
            found[bite.partition, bite.first] = [
                bytes(body[entry.position - begin + 61 : entry.position - begin + entry.length])
                for entry in bite.source.found.entries
            ]
        return found


@given(tasks, st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), max_size=3), st.data())
def test_each_batch_is_copied_once_in_order(
    objects: Sequence[Task], inline: Task, data: st.DataObject
) -> None:
    staged = Staged(objects, inline)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adopt_plan, "PART_BATCHES", data.draw(st.integers(1, 4)))
        patch.setattr(adopt_plan, "WINDOW_BATCHES", data.draw(st.integers(1, 9)))
        patch.setattr(adopt_plan, "GAP_BYTES", data.draw(st.sampled_from([0, 200, 1 << 16])))
        patch.setattr(staged_counts, "MARKS_MAX", data.draw(st.integers(1, 5)))
        patch.setattr(staged_counts, "_SLICE_RANGES", data.draw(st.integers(1, 3)))
        counts = staged.counted()
        done = {
            one: data.draw(st.integers(0, len(some)))
            for one, some in staged.wanted.items()
            if data.draw(st.booleans())
        }
        windows = staged.windows(counts, done)
        here = {one: staged.wanted[one][:count] for one, count in done.items()}
        for window in windows:
            sizes = [len(bite.source.found.entries) for bite in window]
            assert len(window) == 1 or sum(sizes) <= adopt_plan.WINDOW_BATCHES
            batches = staged.batches_of(window)
            for part in parts_of(window):
                mine = here[part[0].partition]
                assert part[0].first == len(mine), "a part begins where the one before ended"
                assert part[-1].end - part[0].first <= adopt_plan.PART_BATCHES
                for bite in part:
                    found = batches[bite.partition, bite.first]
                    counted = staged.wanted[bite.partition][bite.first : bite.end]
                    mine += [(n, one) for (n, _), one in zip(counted, found, strict=True)]
    assert here == {one: staged.wanted[one] for one in done}
    assert all(counts.batches_total(one) == len(some) for one, some in staged.wanted.items())


def test_what_is_copied_is_not_read_again_but_for_the_objects_behind_a_mark() -> None:
    staged = Staged([[(0, 1), (1, 1)]] * 200, [])
    counts = staged.counted()
    done = {TopicPartition(TOPIC, 0): 150, TopicPartition(TOPIC, 1): 120}
    start = finish(counts.start_of(done))

    assert 120 - 200 / staged_counts.MARKS_MAX <= start.number <= 120
    assert set(start.before.values()) == {start.number}
    assert finish(counts.start_of({TopicPartition(TOPIC, 0): 0})).number == 0


def test_counting_goes_on_where_it_was_interrupted() -> None:
    staged = Staged([[(0, 1), (1, 2), (2, 3)]] * 3, [(0, 1)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staged_counts, "_SLICE_RANGES", 1)
        counts = StagedCounts(staged.manifest)
        for index in staged.indexes:
            slices = counts.add(index)
            next(slices)
            slices.close()
            finish(counts.add(index))
        finish(counts.finish())
    assert [counts.batches_total(TopicPartition(TOPIC, n)) for n in range(3)] == [4, 3, 3]


def test_rows_that_do_not_add_up_are_refused() -> None:
    staged = Staged([[(0, 1), (1, 2)]], [])
    more = {**staged.rows, TopicPartition(TOPIC, 0): 2}
    with pytest.raises(Corrupt, match="miscount"):
        staged.counted(staged.decode(staged.encode(more, StagedBuilder())))
    fewer = {TopicPartition(TOPIC, 0): 1}
    with pytest.raises(Corrupt, match="does not name"):
        staged.counted(staged.decode(staged.encode(fewer, StagedBuilder())))


def test_neighbours_in_an_object_are_one_read() -> None:
    staged = Staged([[(0, 1), (1, 1), (2, 1)], [(0, 1)]], [(1, 1)])
    (window,) = staged.windows(staged.counted(), dict.fromkeys(staged.wanted, 0))
    reads, numbers = reads_of(window, staged.manifest.key)

    assert [read.key for read in reads] == [ref.name.key(BATCH) for ref in staged.refs]
    assert numbers == [0, 0, 0, 1, -1]


def test_a_bite_holds_no_entries_of_others() -> None:
    """A window has thousands of bites, and an index a hundred thousand entries."""
    staged = Staged([[(number, 1) for number in range(4)]], [])
    wanted = TopicPartition(TOPIC, 2)
    ((bite,),) = staged.windows(staged.counted(), {wanted: 0})

    assert bite.partition == wanted
    held = [one for one in gc.get_referents(bite.source.found.entries) if isinstance(one, bytes)]
    assert [len(one) for one in held] == [ENTRY_BYTES]


def test_each_range_is_a_place_for_a_turn() -> None:
    """Of ten thousand ranges of an object a leader may want one, and have that already."""
    staged = Staged([[(number, 1) for number in range(4)]], [])
    counts, wanted = staged.counted(), TopicPartition(TOPIC, 2)
    index = staged.indexes[0]
    for done, expected in ((0, 1), (1, 0)):
        plan = CopyPlan(finish(counts.start_of({wanted: 0})).before, {wanted: done})
        bites = list(plan.bites("key", index.header.body_at, index.ranges))
        assert (len(bites), sum(bite is not None for bite in bites)) == (4, expected)
