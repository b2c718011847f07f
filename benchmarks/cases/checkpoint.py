"""Checkpoints of a chain that has lived for long: bytes, and how long each holds the event loop.

    50k producers     idempotent ones of one partition, five batches each
    10k ended         epoch ranges released, as of partitions moved away, and not forgotten yet
    1M earlier        checkpoints, none of which is deleted: a month at 100 segments a second
    all three         in one chain

`freeze` is the owner's work when a checkpoint is due, `slice` the longest time between two turns
of the loop while it is encoded, or read and decoded by a reader that enters the chain. Nothing is
stored; CPU time, with the garbage collector set as a broker sets it: at Python's default pace one
collection of all that this process made takes 20 to 35 ms, in whichever slice it falls. Needs no
server.
"""

import gc
import time
from array import array
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from benchmarks.contenders import Contenders
from benchmarks.options import Options
from broker.process.collector import Collector, thresholds
from logstore.formats.chain_state import ChainState, EpochKey, EpochRange, SegmentSpan
from logstore.formats.checkpoint import chain_state_in_slices, decode_checkpoint, encode_in_slices
from logstore.formats.partition_state import BATCHES_KEPT, PartitionState
from logstore.slices import Slices

CREATED_MS = 1_700_000_000_000
FROM_SEQ, SEGMENTS = 256_000_000, 256
PRODUCERS, ENDED, EARLIER = 50_000, 10_000, 1_000_000
Shape = tuple[int, int, int]
T = TypeVar("T")


def contenders(options: Options) -> Contenders:
    producers, ended, earlier = (
        max(1, int(number * options.scale)) for number in (PRODUCERS, ENDED, EARLIER)
    )
    shapes: dict[str, Shape] = {
        "50k producers": (producers, 0, 0),
        "10k ended": (0, ended, 0),
        "1M earlier": (0, 0, earlier),
        "all three": (producers, ended, earlier),
    }
    return {name: partial(_run, shape) for name, shape in shapes.items()}


def _run(shape: Shape) -> dict[str, float]:
    chain = _chain(*shape)
    Collector().collect_everything(0.0)
    gc.set_threshold(*thresholds())
    frozen, freeze_ms = _timed(chain.frozen_window)
    encoded, encode_ms, encode_slice_ms = _sliced(encode_in_slices(frozen))
    data = b"".join(encoded.parts)
    front, front_ms = _timed(lambda: decode_checkpoint(data))
    states = data[front.front_bytes : front.pages_at]
    found, decode_ms, decode_slice_ms = _sliced(chain_state_in_slices(front, states))
    assert len(found.epoch_ranges) == len(chain.epoch_ranges)
    return {
        "MB": len(data) / 1e6,
        "freeze ms": freeze_ms,
        "encode ms": encode_ms,
        "longest slice ms": encode_slice_ms,
        "front ms": front_ms,
        "decode ms": decode_ms,
        "its longest slice ms": decode_slice_ms,
    }


def _timed(call: Callable[[], T]) -> tuple[T, float]:
    began_s = time.thread_time()
    result = call()
    return result, (time.thread_time() - began_s) * 1e3


def _sliced(slices: Slices[T]) -> tuple[T, float, float]:
    """The result, all milliseconds, and those of the longest slice."""
    total_ms = longest_ms = 0.0
    while True:
        began_s = time.thread_time()
        try:
            next(slices)
        except StopIteration as end:
            result: T = end.value
            return result, total_ms, longest_ms
        finally:
            slice_ms = (time.thread_time() - began_s) * 1e3
            total_ms, longest_ms = total_ms + slice_ms, max(longest_ms, slice_ms)


def _chain(producers: int, ended: int, earlier: int) -> ChainState:
    state = PartitionState()
    for producer in range(producers):
        for batch in range(BATCHES_KEPT):
            state.apply_batch(producer, 0, batch, batch, batch, CREATED_MS, CREATED_MS)
    epoch_ranges = {
        EpochKey(number.to_bytes(16), 0, 0): EpochRange(0, 9, PartitionState(), released=True)
        for number in range(ended)
    }
    epoch_ranges[EpochKey(bytes([255] * 16), 0, 0)] = EpochRange(0, 9, state)
    return ChainState(
        cluster_id=bytes(16),
        epoch=5,
        next_seq=FROM_SEQ + SEGMENTS,
        created_ms=CREATED_MS,
        checkpoints=array("Q", range(FROM_SEQ - SEGMENTS * earlier, FROM_SEQ + SEGMENTS, SEGMENTS)),
        spans=[SegmentSpan(1_000, 100_000)] * SEGMENTS,
        epoch_ranges=epoch_ranges,
    )
