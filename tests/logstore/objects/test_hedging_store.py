"""Hedging: when a second request is sent, what two outcomes come to, and that it is safe."""

import asyncio
from collections.abc import Sequence
from itertools import product
from random import Random

import pytest

from logstore.errors import (
    AlreadyExists,
    LogstoreError,
    NotFound,
    OutcomeUnknown,
    Refused,
    Retryable,
    Throttled,
)
from logstore.formats.keys import CLUSTER_KEY
from logstore.objects.hedge_policy import HedgePolicy, HedgeSettings
from logstore.objects.hedging import HedgingStore
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.ports.objects import Buffer
from logstore.protocol.chain.put import Stored, create_settled, put_once
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.runners.step_runner import StepRunner
from logstore.testing.virtual_loop import VirtualClock
from tests.golden.samples import EPOCH, data

FAST_S, STALLED_S = 0.04, 5.0
Outcome = type[LogstoreError] | None


class ScriptedStore(MemoryStore):
    """Each create takes and comes to what the script says next; None is what memory says.

    `applied_s` is when it happens, if it does; what is called off after that has happened.
    """

    def __init__(
        self, objects: MemoryObjects, script: Sequence[tuple[float, float, Outcome]]
    ) -> None:
        super().__init__(objects)
        self.script = list(script)
        self.calls = 0
        self.called_off = 0

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        self.calls += 1
        applied_s, answered_s, outcome = (
            self.script.pop(0) if self.script else (FAST_S / 2, FAST_S, None)
        )
        clock = VirtualClock()
        try:
            await clock.sleep_s(applied_s)
            error: LogstoreError | None = outcome("as planned") if outcome else None
            if error is None or isinstance(error, OutcomeUnknown):
                try:
                    await super().create(key, parts)
                except AlreadyExists as exists:
                    error = error or exists
            await clock.sleep_s(answered_s - applied_s)
        except asyncio.CancelledError:
            self.called_off += 1
            raise
        if error is not None:
            raise error

    async def get(self, key: str) -> bytes:
        self.calls += 1
        seconds = self.script.pop(0)[1] if self.script else FAST_S
        await VirtualClock().sleep_s(seconds)
        return await super().get(key)


def warm_policy(settings: HedgeSettings | None = None) -> HedgePolicy:
    """One that has seen 500 requests of 40 ms, and may hedge ten times."""
    policy = HedgePolicy(settings or HedgeSettings())
    for _ in range(500):
        for kind in ("create", "read"):
            policy.begin(kind, 100, 0.0)
            policy.end(kind, 100, FAST_S)
            policy.end(kind, 1 << 20, FAST_S)
    return policy


def stored(objects: MemoryObjects, key: str) -> bytes | None:
    try:
        return objects.get(key)
    except NotFound:
        return None


async def test_a_stalled_create_ends_when_the_second_does() -> None:
    clock = VirtualClock()
    store = ScriptedStore(MemoryObjects(clock), [(STALLED_S, STALLED_S, None)])
    hedging = HedgingStore(store, warm_policy(), clock)
    before_s = clock.monotonic_s()
    await hedging.create("k", [b"x"])
    assert clock.monotonic_s() - before_s == pytest.approx(2 * FAST_S)
    assert (store.calls, store.called_off) == (2, 1)


async def test_a_create_that_ends_in_time_is_sent_once() -> None:
    clock = VirtualClock()
    store = ScriptedStore(MemoryObjects(clock), [])
    hedging = HedgingStore(store, warm_policy(HedgeSettings(delay_s_min=0.05)), clock)
    for number in range(100):
        await hedging.create(f"k/{number}", [b"x"])
    assert store.calls == 100


OUTCOMES: list[Outcome] = [None, AlreadyExists, OutcomeUnknown, Retryable, Throttled, Refused]


@pytest.mark.parametrize(("first", "second"), list(product(OUTCOMES, OUTCOMES)))
@pytest.mark.parametrize("first_s", [0.06, STALLED_S])
async def test_two_outcomes_come_to_one_that_is_true(
    first: Outcome, second: Outcome, first_s: float
) -> None:
    clock = VirtualClock()
    objects = MemoryObjects(clock)
    script = [(first_s / 2, first_s, first), (FAST_S / 2, FAST_S, second)]
    hedging = HedgingStore(ScriptedStore(objects, script), warm_policy(), clock)
    try:
        await hedging.create("k", [b"x"])
    except LogstoreError as error:
        if type(error) in (Retryable, Throttled, Refused):
            assert stored(objects, "k") is None
    else:
        assert stored(objects, "k") == b"x"


async def test_put_once_is_never_fenced_by_its_own_second_request() -> None:
    """The first has happened and its answer hangs; the second learns that an object is there."""

    clock = VirtualClock()
    objects = MemoryObjects(clock)
    store = ScriptedStore(objects, [(0.01, STALLED_S, None)])
    segment = data()
    assert await runner(store, clock).run(put_once(EPOCH, segment)) == Stored()
    assert clock.monotonic_s() < 1
    [info] = list(objects.list(""))
    assert objects.get(info.key) == b"".join(segment.parts)


async def test_an_object_whose_key_says_it_all_is_settled_by_its_own_second_request() -> None:
    clock = VirtualClock()
    store = ScriptedStore(MemoryObjects(clock), [(0.01, STALLED_S, None)])
    await runner(store, clock).run(create_settled(CLUSTER_KEY, b"{}", attempts_max=3))
    assert clock.monotonic_s() < 1


def runner(store: ScriptedStore, clock: VirtualClock) -> StepRunner:
    registry = RetryingRegistry(MemoryRows(), lambda: "id", clock, Random(1))
    hedging = HedgingStore(store, HedgePolicyOfAnySize(), clock)
    return StepRunner(hedging, registry, clock, Random(1), lambda: bytes(16))


class HedgePolicyOfAnySize(HedgePolicy):
    def __init__(self) -> None:
        super().__init__(HedgeSettings())

    def begin(self, kind: str, size_bytes: int, now_s: float) -> float | None:
        return 0.05

    def take(self, kind: str, now_s: float) -> bool:
        return True


async def test_a_stalled_read_ends_when_the_second_does() -> None:
    clock = VirtualClock()
    objects = MemoryObjects(clock)
    objects.create("k", [b"data"])
    store = ScriptedStore(objects, [(STALLED_S, STALLED_S, None)])
    hedging = HedgingStore(store, warm_policy(), clock)
    assert await hedging.get("k") == b"data"
    assert clock.monotonic_s() < 1


async def test_who_gives_up_calls_both_off() -> None:
    clock = VirtualClock()
    script = [(STALLED_S, STALLED_S, None)] * 2
    store = ScriptedStore(MemoryObjects(clock), script)
    hedging = HedgingStore(store, warm_policy(), clock)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await hedging.create("k", [b"x"])
    assert (store.calls, store.called_off) == (2, 2)
