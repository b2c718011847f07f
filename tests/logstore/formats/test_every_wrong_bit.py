"""Every stored object with one wrong bit: `Corrupt` or `Refused`, never another exception.

Every bit of every golden object is tried. Where a checksum covers the bytes, a wrong bit is noticed
or changes nothing; JSON has no checksum, so there another value may come out.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from logstore.errors import Corrupt, Refused
from logstore.formats.chain_state import ChainState
from logstore.formats.checkpoint import chain_state_of, decode_checkpoint, encode_checkpoint
from logstore.formats.compaction_row import CutRange, TopicCut, pack_cut, unpack_cut
from logstore.formats.keys import checkpoint_key, segment_key
from logstore.formats.leadership_payload import decode_payload
from logstore.formats.manifest import decode_manifest
from logstore.formats.partition_state import decode_state
from logstore.formats.segment import (
    ENTRY_BYTES,
    Header,
    StagedObject,
    body_of,
    decode_front,
    encode_front,
)
from logstore.formats.staged_object import StagedRange, batches_of, decode_staged
from logstore.formats.table_row import pack_ends, unpack_ends
from logstore.formats.topic_record import decode_record
from logstore.protocol.chain.identity import Identity, decode_identity, encode_identity
from logstore.protocol.chain.walk import (
    FRONT_GUESS_BYTES,
    read_chain_at,
    read_checkpoint,
    read_front,
)
from logstore.protocol.partitions.index_cache import IndexCache
from logstore.protocol.steps import GetRange, Steps
from logstore.slices import finish
from tests.golden import samples
from tests.golden.samples import golden

Decode = Callable[[bytes], Any]


def checkpoint_with_places() -> bytes:
    chain = samples.chain()
    chain.places = [
        StagedObject("staging/one/1", samples.nonce(8)),
        StagedObject("staging/one/2", bytes(16)),
    ]
    return encode_checkpoint(chain)


def with_places() -> bytes:
    """A data segment whose batch is adopted from the first of two staged objects."""
    index = decode_front(golden("segment-1-data"))
    entries = bytearray(golden("segment-1-data")[112 : 112 + 2 * ENTRY_BYTES])
    entries[ENTRY_BYTES] = 4
    entries[ENTRY_BYTES + 3] = 1
    places = [
        StagedObject("staging/one/1", samples.nonce(8)),
        StagedObject("staging/one/2", samples.nonce(9)),
    ]
    front = encode_front(index.header, bytes(entries), places)
    return front + golden("segment-1-data")[index.header.body_at :]


def read_staged(data: bytes) -> Any:
    """Index and batches, as a leader that adopts them reads them."""
    batch, ref = samples.SINK_BATCH, samples.staged_ref()
    index = finish(decode_staged(data, batch, ref, cluster_id=samples.CLUSTER_ID))
    return index, read_ranges(data, index.header, index.ranges)


def read_manifest(data: bytes) -> Any:
    found = decode_manifest(data, samples.SINK_BATCH, cluster_id=samples.CLUSTER_ID)
    return found, read_ranges(data, found.header, found.inline)


def read_ranges(data: bytes, header: Header, ranges: Sequence[StagedRange]) -> Any:
    body = memoryview(data)[header.body_at :]
    return [list(batches_of(one, body[one.start : one.end], "key")) for one in ranges]


def read_segment(data: bytes) -> Any:
    """Front, states and body, as those read that look at all of it."""
    front = answered(read_front(samples.EPOCH, 1), {segment_key(samples.EPOCH, 1): data})
    return front, bytes(body_of(data, front.index.header))


def read_all_of_a_checkpoint(data: bytes) -> Any:
    """Front, states and pages, as readers read them."""
    return read_checkpoint_at(2, data)


def read_checkpoint_at(seq: int, data: bytes) -> Any:
    objects = {checkpoint_key(samples.EPOCH, seq): data}
    front = answered(read_checkpoint(samples.EPOCH, seq), objects)
    chain = answered(read_chain_at(samples.CLUSTER_ID, samples.EPOCH, seq), objects)
    pages = [answered(IndexCache().page(front, page), objects) for page in front.pages]
    return meaning_of(chain), list(front.earlier), list(front.spans), list(front.places), pages


def meaning_of(chain: ChainState) -> Any:
    place = (chain.next_seq, chain.last_nonce, chain.created_ms, chain.broker)
    return place, chain.epoch_ranges, chain.deleted_below


def decode_whole_checkpoint(data: bytes) -> Any:
    front = decode_checkpoint(data)
    return meaning_of(chain_state_of(front, data[front.front_bytes : front.pages_at]))


def answered(steps: Steps[Any], objects: dict[str, bytes]) -> Any:
    """What `steps` come to when they read `objects`. Ranges beyond an end are cut, as stores do."""
    answer: Any = None
    try:
        while True:
            step = steps.send(answer)
            assert isinstance(step, GetRange)
            asked = step.start + step.length
            assert 0 <= step.start < asked <= FRONT_GUESS_BYTES, (
                f"a wrong length is believed: {asked}"
            )
            answer = objects[step.key][step.start : step.start + step.length]
    except StopIteration as done:
        return done.value


CHECKED: dict[str, tuple[bytes, Decode]] = {
    "segment": (golden("segment-1-data"), read_segment),
    "segment with places": (with_places(), read_segment),
    "staged object": (golden("staged-1"), read_staged),
    "manifest": (golden("manifest-1"), read_manifest),
    "void manifest": (golden("manifest-1-void"), read_manifest),
    "segment that forgets": (golden("segment-2-forgetting"), decode_front),
    "segment that says what was deleted": (golden("segment-3-deleted-below"), decode_front),
    "segment with copied batches": (golden("segment-4-adopt-end"), read_segment),
    "opening": (golden("segment-1-opening"), decode_front),
    "seal": (golden("segment-1-seal"), decode_front),
    "checkpoint": (golden("checkpoint-1"), read_all_of_a_checkpoint),
    "checkpoint with deleted offsets": (golden("checkpoint-2"), partial(read_checkpoint_at, 3)),
    "checkpoint with places": (checkpoint_with_places(), read_all_of_a_checkpoint),
    "checkpoint at once": (golden("checkpoint-1")[:-68], decode_whole_checkpoint),
}
"""Objects whose checksums cover every byte, and who reads them."""

UNCHECKED: dict[str, tuple[bytes, Decode]] = {
    "state": (golden("state-1"), decode_state),
    "state with a sink": (golden("state-2"), decode_state),
    "pieces of a state": (golden("take-1-pieces"), decode_payload),
    "topic record": (
        golden("topic-record-1"),
        lambda data: decode_record(samples.topic_record().key, data),
    ),
    "cluster.json": (
        encode_identity(Identity(samples.CLUSTER_ID, "dynamodb://logstore?region=eu-west-1")),
        decode_identity,
    ),
    "ends in a table's row": (pack_ends({0: 9_000_000, 3: 70, 12: 2**40}), unpack_ends),
    "cut in a run's row": (
        pack_cut([TopicCut(samples.TOPIC_ID, 7, [CutRange(1, 2, 300), CutRange(9, 0, 2**40)])]),
        unpack_cut,
    ),
}
"""Bytes without a checksum of their own. What names a state or its chunks has one for them."""


def each_wrong_bit(data: bytes) -> Iterator[tuple[int, bytes]]:
    for bit in range(8 * len(data)):
        wrong = bytearray(data)
        wrong[bit // 8] ^= 1 << bit % 8
        yield bit, bytes(wrong)


@pytest.mark.parametrize("name", CHECKED)
def test_one_wrong_bit_is_noticed_or_changes_nothing(name: str) -> None:
    data, decode = CHECKED[name]
    whole = decode(data)

    for bit, wrong in each_wrong_bit(data):
        try:
            found = decode(wrong)
        except (Corrupt, Refused):
            continue
        assert found == whole, f"bit {bit} of byte {bit // 8}"


@pytest.mark.parametrize("name", UNCHECKED)
def test_one_wrong_bit_raises_nothing_but_corrupt_and_refused(name: str) -> None:
    data, decode = UNCHECKED[name]
    decode(data)

    for _bit, wrong in each_wrong_bit(data):
        with suppress(Corrupt, Refused):
            decode(wrong)


@pytest.mark.parametrize("name", CHECKED)
def test_what_is_cut_short_is_noticed(name: str) -> None:
    data, decode = CHECKED[name]
    for length in range(len(data)):
        with pytest.raises((Corrupt, Refused)):
            decode(data[:length])
