"""Putting segments (safety rule 2) through the real S3 client while every kind of fault happens.

For each outcome that a client can see: the segment ends up stored, once, with its own bytes, and
its writer knows; a writer is fenced only by another's object, and then always.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import pytest

from logstore.formats.keys import segment_key
from logstore.formats.segment import SegmentKind
from logstore.formats.segment_builder import FrozenSegment, bare_header, freeze_bare
from logstore.objects.hedge_policy import HedgePolicy, HedgeSettings
from logstore.objects.hedging import HedgingStore
from logstore.objects.s3 import S3BlockingStore, S3Store
from logstore.objects.s3_options import S3Options
from logstore.ports.clock import SystemClock
from logstore.ports.objects import ObjectStore
from logstore.protocol.chain.put import KeyTaken, Stored, put_once
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.runners.step_runner import StepRunner
from tests.servers.buckets import new_location
from tests.servers.locked_moto import aws_environment, locked_moto
from tests.servers.proxied import Proxied, proxied

CLUSTER_ID, EPOCH, TIMEOUT_MS = bytes(16), 7, 300

PUT_FAULTS: Sequence[str] = (
    *("500", "503", "409", "403", "reset", "hang"),
    *("applied-500", "applied-503", "applied-reset", "applied-hang"),
    *("late seconds=0.05", "late seconds=0.6", "slow seconds=0.6"),
)
LOOK_FAULTS = ("500", "503", "403", "409", "reset", "hang", "cut")

Wrap = Callable[[ObjectStore], ObjectStore]


class HastyClock(SystemClock):
    """Back-offs take a fiftieth of their time."""

    async def sleep_s(self, seconds: float) -> None:
        await super().sleep_s(seconds / 50)


class Storm:
    """Puts through the proxy, and a look past it."""

    def __init__(self, proxy: Proxied) -> None:
        self.proxy = proxy
        self.location = new_location(locked_moto())
        self.direct = S3BlockingStore(self.location, S3Options(endpoint=locked_moto()))

    def put(self, segments: Sequence[FrozenSegment], wrap: Wrap = lambda store: store) -> list[Any]:
        """What each came to, all sent at once."""
        return asyncio.run(self._put(segments, wrap))

    async def _put(self, segments: Sequence[FrozenSegment], wrap: Wrap) -> list[Any]:
        clock, rng = HastyClock(), Random(1)
        options = S3Options(endpoint=self.proxy.endpoint, timeout_ms=TIMEOUT_MS)
        store = wrap(S3Store(self.location, options, clock))
        registry = RetryingRegistry(MemoryRows(), lambda: "id", clock, rng)
        runner = StepRunner(store, registry, clock, rng, lambda: bytes(16))
        try:
            puts = (runner.run(put_once(EPOCH, segment)) for segment in segments)
            return await asyncio.gather(*puts)
        finally:
            await store.close()

    def check_stored(self, segments: Sequence[FrozenSegment]) -> None:
        """Each once, under its key, with its bytes; nothing else is there."""
        found = {info.key: self.direct.get(info.key) for info in self.direct.list("")}
        expected = {segment_key(EPOCH, one.seq): b"".join(one.parts) for one in segments}
        assert found == expected


def segment(seq: int, kind: SegmentKind = SegmentKind.DATA) -> FrozenSegment:
    nonce = Random(f"{seq} {kind}").randbytes(16)
    return freeze_bare(
        bare_header(
            kind,
            cluster_id=CLUSTER_ID,
            epoch=EPOCH,
            seq=seq,
            broker=1,
            nonce=nonce,
            previous_nonce=bytes(16),
            created_ms=1,
        )
    )


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxied]:
    with aws_environment(), proxied(locked_moto()) as running:
        yield running


@pytest.fixture
def storm(proxy: Proxied) -> Storm:
    proxy.play()
    return Storm(proxy)


@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("fault", PUT_FAULTS)
def test_a_segment_is_stored_once_whatever_answer_its_writer_gets(
    storm: Storm, fault: str, times: int
) -> None:
    storm.proxy.play(f"{fault} methods=PUT most={times}")
    segments = [segment(1)]
    assert storm.put(segments) == [Stored()]
    storm.check_stored(segments)
    assert storm.proxy.counts()[f"PUT {fault.split()[0]}"] in range(1, times + 1)


@pytest.mark.slow
@pytest.mark.parametrize("fault", LOOK_FAULTS)
def test_a_writer_that_cannot_look_whose_object_is_there_is_not_fenced(
    storm: Storm, fault: str
) -> None:
    storm.proxy.play("applied-reset methods=PUT most=1", f"{fault} methods=GET most=2")
    segments = [segment(1)]
    assert storm.put(segments) == [Stored()]
    storm.check_stored(segments)
    assert storm.proxy.counts()[f"GET {fault}"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("fault", PUT_FAULTS)
def test_a_seal_fences_whatever_answer_the_writer_gets(storm: Storm, fault: str) -> None:
    seal = segment(1, SegmentKind.SEAL)
    storm.direct.create(segment_key(EPOCH, 1), seal.parts)
    storm.proxy.play(f"{fault} methods=PUT most=2")
    [outcome] = storm.put([segment(1)])
    assert isinstance(outcome, KeyTaken)
    assert outcome.header is not None
    assert outcome.header.kind is SegmentKind.SEAL
    storm.check_stored([seal])


@pytest.mark.parametrize("fault", ["hang", "applied-hang", "slow seconds=0.25"])
def test_a_second_request_of_ones_own_neither_doubles_nor_fences(storm: Storm, fault: str) -> None:
    policy = HedgePolicy(HedgeSettings(share=1.0, samples_min=1, delay_s_min=0.05))
    for _ in range(20):
        policy.begin("create", 100, 0.0)
        policy.end("create", 100, 0.01)
    storm.proxy.play(f"{fault} methods=PUT most=1")
    segments = [segment(1)]
    assert storm.put(segments, lambda store: HedgingStore(store, policy, SystemClock())) == [
        Stored()
    ]
    storm.check_stored(segments)
    assert policy.hedges["create"] == 1


@pytest.mark.slow
@pytest.mark.seeds(20)
def test_a_storm_of_faults_loses_doubles_and_fences_nothing(storm: Storm, seed: int) -> None:
    rules = [f"{fault} methods=PUT rate=0.05" for fault in PUT_FAULTS]
    rules += [f"{fault} methods=GET rate=0.07" for fault in LOOK_FAULTS]
    storm.proxy.play(*rules, seed=seed)
    segments = [segment(seq) for seq in range(1, 31)]
    sealed = [segment(seq) for seq in range(31, 36)]
    seals = [segment(one.seq, SegmentKind.SEAL) for one in sealed]
    for seal in seals:
        storm.direct.create(segment_key(EPOCH, seal.seq), seal.parts)

    outcomes = storm.put([*segments, *sealed])

    assert outcomes[:30] == [Stored()] * 30
    assert all(isinstance(outcome, KeyTaken) for outcome in outcomes[30:])
    storm.check_stored([*segments, *seals])
