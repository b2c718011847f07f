"""Which batches a leader puts off, since a change of leaders may have let them overtake others."""

import re
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore.epoch.leader import (
    EARLY_S,
    PUT_OFF_MAX,
    REPEATED_S,
    Leader,
    NotLeading,
    ProducerRefused,
)
from logstore.epoch.log import Log
from logstore.errors import Fenced
from logstore.formats.partition_state import (
    BATCHES_KEPT,
    PRODUCER_EXPIRATION_MS,
    pack_producer,
    unpack_producer,
)
from logstore.protocol.partitions.producers import Refusal
from logstore.records.batch import check_batch
from logstore.records.encode import encode_batch, records_of
from logstore.testing.audit import audit, records_of_batches
from logstore.testing.virtual_loop import EPOCH_MS, run
from tests.logstore.written import WrittenLog, committed

KNOWN, UNKNOWN = 7, 8
"""Producers: of the first, the partition holds sequences 0 and 1 in epoch 3; of the other none."""

TAKEN, PUT_OFF = "taken", "put off"
BROKEN, STALE = Refusal.OUT_OF_ORDER, Refusal.STALE_EPOCH
Reported = str | Refusal
Case = tuple[int, int, int, Reported, Reported, Reported]


def append(leader: Leader, producer: int, sequence: int, epoch: int = 3, count: int = 1) -> int:
    """The seq to wait for."""
    records = records_of([(None, b"%d" % sequence)] * count, timestamp=EPOCH_MS)
    data = memoryview(
        encode_batch(records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    )
    return leader.append(data, check_batch(data, 0, len(data))).seq


def reported(leader: Leader, producer: int, sequence: int, epoch: int = 3) -> Reported:
    try:
        append(leader, producer, sequence, epoch)
    except NotLeading:
        return PUT_OFF
    except ProducerRefused as refused:
        return refused.refusal
    return TAKEN


async def leader_of(log: Log) -> Leader:
    topic = log.topics.get("orders") or await log.create_topic("orders", 1, {})
    return topic.leaders[0]


async def write_what_is_known(log: Log) -> None:
    await committed(log, append(await leader_of(log), KNOWN, 0, count=2))


CASES: dict[str, Case] = {
    # producer, sequence, epoch → in the first leadership, in a later one, when that is older
    "the next one": (KNOWN, 2, 3, TAKEN, TAKEN, TAKEN),
    "one that is ahead": (KNOWN, 3, 3, BROKEN, PUT_OFF, BROKEN),
    "one that is behind": (KNOWN, 1, 3, BROKEN, BROKEN, BROKEN),
    "of an older epoch": (KNOWN, 5, 2, STALE, STALE, STALE),
    "the first of a newer epoch": (KNOWN, 0, 4, TAKEN, TAKEN, TAKEN),
    "ahead in a newer epoch": (KNOWN, 2, 4, BROKEN, PUT_OFF, BROKEN),
    "the first of a new producer": (UNKNOWN, 0, 0, TAKEN, TAKEN, TAKEN),
    "another of a new producer": (UNKNOWN, 5, 0, PUT_OFF, PUT_OFF, TAKEN),
}


@pytest.mark.parametrize("name", CASES)
async def test_what_may_have_overtaken_is_put_off_while_a_leadership_is_new(name: str) -> None:
    producer, sequence, epoch, in_the_first, in_a_later_one, when_older = CASES[name]

    for in_the_second, wait_s, expected in (
        (False, 0.0, in_the_first),
        (True, 0.0, in_a_later_one),
        (True, EARLY_S + 1, when_older),
    ):
        written = WrittenLog()
        async with written.life(clean=False) as log:
            await write_what_is_known(log)
            if not in_the_second:
                assert reported(await leader_of(log), producer, sequence, epoch) == expected
        if in_the_second:
            async with written.life(clean=False) as log:
                leader = await leader_of(log)
                assert leader.leader_epoch == 1
                await written.runner.clock.sleep_s(wait_s)
                assert reported(leader, producer, sequence, epoch) == expected


async def test_a_producer_that_lived_on_from_a_deleted_topic_goes_on_once_it_repeats() -> None:
    """Its sequences go on, and what came before lies in the former life of the name."""

    written = WrittenLog()
    async with written.life() as log:
        leader = await leader_of(log)
        assert [reported(leader, UNKNOWN, sequence) for sequence in (5, 6)] == [PUT_OFF] * 2
        await written.runner.clock.sleep_s(REPEATED_S / 2)
        assert reported(leader, UNKNOWN, 5) == PUT_OFF
        await written.runner.clock.sleep_s(REPEATED_S / 2)
        assert reported(leader, UNKNOWN, 7) == PUT_OFF, "it is new"
        assert [reported(leader, UNKNOWN, sequence) for sequence in (5, 6, 7)] == [TAKEN] * 3


async def test_a_repeated_batch_waits_for_one_that_was_put_off_before_it() -> None:
    written = WrittenLog()
    async with written.life() as log:
        leader = await leader_of(log)
        assert [reported(leader, UNKNOWN, sequence) for sequence in (5, 6)] == [PUT_OFF] * 2
        await written.runner.clock.sleep_s(REPEATED_S)
        assert reported(leader, UNKNOWN, 6) == PUT_OFF
        assert [reported(leader, UNKNOWN, sequence) for sequence in (5, 6)] == [TAKEN] * 2


async def test_a_repeated_batch_waits_in_a_later_leadership_where_others_may_be_on_their_way() -> (
    None
):
    written = WrittenLog()
    async with written.life(clean=False) as log:
        await write_what_is_known(log)
    async with written.life(clean=False) as log:
        leader = await leader_of(log)
        assert reported(leader, UNKNOWN, 5) == PUT_OFF
        await written.runner.clock.sleep_s(REPEATED_S)
        assert reported(leader, UNKNOWN, 5) == PUT_OFF


async def test_batches_that_were_put_off_are_remembered_up_to_a_bound() -> None:
    written = WrittenLog()
    async with written.life() as log:
        leader = await leader_of(log)
        for producer in range(100, 100 + 2 * PUT_OFF_MAX):
            assert reported(leader, producer, 5) == PUT_OFF
        assert len(leader._put_off) == PUT_OFF_MAX
        await written.runner.clock.sleep_s(EARLY_S)
        assert reported(leader, UNKNOWN, 5) == TAKEN
        assert not leader._put_off


async def test_in_an_empty_partition_a_batch_waits_for_the_first_of_its_producer() -> None:
    written = WrittenLog()
    async with written.life() as log:
        leader = await leader_of(log)
        assert reported(leader, UNKNOWN, 1) == PUT_OFF
        assert leader.log_end == 0
        assert reported(leader, UNKNOWN, 0) == TAKEN
        assert reported(leader, UNKNOWN, 1) == TAKEN


async def test_who_has_been_heard_of_nowhere_begins_anywhere_once_a_leadership_is_older() -> None:
    """As a producer whose state was forgotten, or whose topic was created again (KIP-360)."""

    written = WrittenLog()
    async with written.life() as log:
        leader = await leader_of(log)
        assert reported(leader, UNKNOWN, 5) == PUT_OFF
        await written.runner.clock.sleep_s(EARLY_S + 1)
        assert reported(leader, UNKNOWN, 5) == TAKEN
        assert reported(leader, UNKNOWN, 6) == TAKEN


@pytest.mark.parametrize("sequence", [0, 1, 3, 9])
@pytest.mark.parametrize("epoch", [2, 3, 4])
async def test_a_producer_that_was_idle_for_a_day_begins_anywhere_before_it_is_dropped_too(
    sequence: int, epoch: int
) -> None:
    """As after the next checkpoint, which drops it; and it waits as unknown ones do."""

    written = WrittenLog()
    async with written.life() as log:
        await write_what_is_known(log)
        leader = await leader_of(log)
        producers = leader.epoch_range.state.producers
        known = unpack_producer(producers[KNOWN])
        idle = known._replace(last_ms=known.last_ms - PRODUCER_EXPIRATION_MS)
        producers[KNOWN] = pack_producer(KNOWN, idle)
        if sequence:
            assert reported(leader, KNOWN, sequence, epoch) == PUT_OFF
            await written.runner.clock.sleep_s(EARLY_S + 1)
        assert reported(leader, KNOWN, sequence, epoch) == TAKEN
        assert reported(leader, KNOWN, sequence + 2, epoch) == BROKEN


@pytest.mark.parametrize(("producer", "sequence", "epoch"), [case[:3] for case in CASES.values()])
async def test_a_released_partition_judges_no_sequence(
    producer: int, sequence: int, epoch: int
) -> None:
    written = WrittenLog()
    async with written.life() as log:
        await write_what_is_known(log)
        leader = await leader_of(log)
        leader.release()
        await written.runner.clock.sleep_s(EARLY_S + 1)
        assert reported(leader, producer, sequence, epoch) == PUT_OFF


async def test_a_repeat_of_what_a_released_partition_holds_is_answered() -> None:
    written = WrittenLog()
    async with written.life() as log:
        leader = await leader_of(log)
        seq = append(leader, KNOWN, 0)
        leader.release()
        assert append(leader, KNOWN, 0) == seq
        assert leader.log_end == 1


async def test_a_broker_that_was_fenced_judges_no_sequence() -> None:
    written = WrittenLog()
    async with written.life(clean=False) as log:
        await write_what_is_known(log)
        log.writer.stop()
        with pytest.raises(Fenced):
            append(await leader_of(log), KNOWN, 3)


async def test_a_broker_that_a_heartbeat_fenced_names_no_seq() -> None:
    """Which seq is taken is known to one that found it so by a put alone."""

    written = WrittenLog()
    async with written.life(clean=False) as log:
        ended: list[BaseException | None] = []
        log.writer.when_committed(append(await leader_of(log), KNOWN, 0), ended.append)
        log.writer.stop()
        (error,) = ended
        assert re.search(r"fenced: epoch=\d+; another took over", str(error))


@dataclass
class Sender:
    """A producer with five batches in flight, which sends again what is not acknowledged."""

    leader: Leader
    batches: int
    acknowledged: set[int] = field(default_factory=set)

    def in_flight(self) -> list[int]:
        """The numbers of the oldest batches without an acknowledgement, one sequence each."""
        left = [n for n in range(self.batches) if n not in self.acknowledged]
        return [n for n in left if n < left[0] + BATCHES_KEPT]

    async def send(self, log: Log, numbers: list[int], *, is_answered: bool) -> None:
        stored, seq = set(), -1
        for number in numbers:
            try:
                seq = max(seq, append(self.leader, KNOWN, number))
            except NotLeading:
                continue
            stored.add(number)
        if is_answered:
            await committed(log, seq)
            self.acknowledged |= stored


@dataclass(frozen=True)
class Life:
    """One leadership, as a producer with five batches in flight meets it."""

    lost: int
    """How many batches come before it begins."""
    rounds: int
    released_before: int
    """In the last round, it ends before that batch comes."""
    is_answered: bool
    """Whether the answers of the last round come."""


async def values_of(log: Log, leader: Leader) -> list[bytes | None]:
    values: list[bytes | None] = []
    while len(values) < leader.high_watermark:
        chunk = await log.read(leader, len(values), leader.high_watermark, 1 << 20)
        values += [record.value for record in records_of_batches(b"".join(chunk.buffers))]
    return values


lives_of_a_partition = st.lists(
    st.builds(Life, st.integers(0, 5), st.integers(1, 3), st.integers(0, 5), st.booleans()),
    max_size=5,
)


@pytest.mark.slow
@given(lives_of_a_partition, st.integers(1, 25))
@settings(max_examples=40)
def test_a_producer_with_five_in_flight_never_hears_of_a_broken_sequence(
    lives: list[Life], batches: int
) -> None:
    """Whichever of them are refused by leaders that begin late and end early."""

    async def scenario() -> None:
        written, acknowledged = WrittenLog(), set[int]()
        for life in lives:
            async with written.life(clean=False) as log:
                sender = Sender(await leader_of(log), batches, acknowledged)
                for number in range(life.rounds):
                    came = sender.in_flight()[life.lost if number == 0 else 0 :]
                    if number < life.rounds - 1:
                        await sender.send(log, came, is_answered=True)
                        continue
                    await sender.send(log, came[: life.released_before], is_answered=False)
                    sender.leader.release()
                    await sender.send(log, came, is_answered=life.is_answered)
        async with written.life() as log:
            sender = Sender(await leader_of(log), batches, acknowledged)
            while len(acknowledged) < batches:
                await sender.send(log, sender.in_flight(), is_answered=True)
            values = await values_of(log, sender.leader)
            assert values == [b"%d" % number for number in range(batches)]
        assert audit(written.objects, written.rows).violations == []

    run(scenario())
