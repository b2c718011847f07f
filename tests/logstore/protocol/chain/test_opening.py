"""Drawing an epoch (safety rule 3): openings have no gaps, and no epoch is given twice."""

import asyncio

import pytest

from logstore.errors import NotFound, Refused
from logstore.formats.chain_row import CHAIN, ChainRow, ChainStatus, chain_sk
from logstore.formats.cluster_row import CLUSTER, ClusterRow
from logstore.formats.keys import segment_key
from logstore.formats.segment import SegmentKind, decode_header
from logstore.protocol.chain.opening import Opened, open_chain
from logstore.protocol.leading.takeover import Successor, take_over
from logstore.protocol.steps import Create, ListKeys, PutRow, Request, Steps, UpdateRow, Wait
from logstore.testing.scripted import resume, stop_before
from logstore.testing.simulated_rows import at_once
from logstore.testing.virtual_loop import run
from tests.golden.samples import BROKER, CLUSTER_ID, EPOCH
from tests.logstore.protocol.built import BuiltChain, open_chain_row

LEASE_S = 3.0


async def open_one(chain: BuiltChain, broker: int = BROKER) -> Opened:
    return await chain.runner.run(open_chain(CLUSTER_ID, broker, lease_s=LEASE_S))


def next_epoch(chain: BuiltChain) -> int:
    row = at_once(chain.rows.get(CLUSTER, CLUSTER))
    assert row is not None
    return ClusterRow.of(row).next_epoch


def kind_at(chain: BuiltChain, epoch: int, seq: int) -> SegmentKind | None:
    try:
        return decode_header(chain.objects.get(segment_key(epoch, seq))).kind
    except NotFound:
        return None


def test_an_opening_then_the_row_then_the_chain_row() -> None:
    chain = BuiltChain()
    chain.register_cluster(EPOCH)
    opened = run(open_one(chain))

    assert opened.epoch == EPOCH
    assert next_epoch(chain) == EPOCH + 1
    assert kind_at(chain, EPOCH, 0) is SegmentKind.OPENING
    assert chain.chain_row().status is ChainStatus.OPEN
    assert chain.chain_row().broker == BROKER


def test_the_chain_row_says_what_topics_of_its_broker_inherit() -> None:
    chain = BuiltChain()
    chain.register_cluster(EPOCH)
    defaults = {"cleanup.policy": "compact"}
    run(chain.runner.run(open_chain(CLUSTER_ID, BROKER, lease_s=LEASE_S, topic_defaults=defaults)))

    assert chain.chain_row().topic_defaults == defaults
    assert "topic_defaults" not in ChainRow(broker=BROKER, status=ChainStatus.OPEN).row()


def test_two_at_once_draw_two_epochs() -> None:
    async def both(chain: BuiltChain) -> set[int]:
        async with asyncio.TaskGroup() as tasks:
            drawn = [tasks.create_task(open_one(chain, broker)) for broker in range(6)]
        return {task.result().epoch for task in drawn}

    chain = BuiltChain()
    chain.register_cluster(1)
    epochs = run(both(chain))

    assert len(epochs) == 6
    kinds = [kind_at(chain, epoch, 0) for epoch in range(1, next_epoch(chain))]
    assert kinds == [SegmentKind.OPENING] * 6


def test_an_opening_whose_maker_died_is_buried_after_a_lease() -> None:
    chain = BuiltChain()
    chain.register_cluster(EPOCH)
    chain.add_opening()

    async def timed() -> tuple[Opened, float]:
        return await open_one(chain), chain.clock.monotonic_s()

    opened, after_s = run(timed())

    assert opened.epoch == EPOCH + 1
    assert after_s >= LEASE_S
    assert kind_at(chain, EPOCH, 1) is SegmentKind.SEAL


def test_an_opening_that_was_buried_halfway_is_passed() -> None:
    chain = BuiltChain()
    chain.register_cluster(EPOCH)
    chain.add_opening()
    chain.add_seal()

    assert run(open_one(chain)).epoch == EPOCH + 1


def test_an_opening_that_was_taken_over_by_its_chain_row_is_passed() -> None:
    """Its maker died before it raised the row; the takeover put the seal and a checkpoint there."""
    chain = BuiltChain()
    chain.register_cluster(EPOCH)
    chain.add_opening()
    chain.register(open_chain_row())
    run(chain.runner.run(take_over(CLUSTER_ID, EPOCH, BROKER, lambda *_: Successor(BROKER, EPOCH))))
    assert chain.chain_row().checkpoint == 1

    assert run(open_one(chain)).epoch == EPOCH + 1


@pytest.mark.parametrize("what", [ListKeys, Create])
def test_a_maker_that_raises_the_row_late_is_no_sign_of_an_old_registry(
    what: type[ListKeys] | type[Create],
) -> None:
    """It writes its chain after the row was read and before the chain is looked at."""
    chain = BuiltChain()
    chain.register_cluster(EPOCH)
    chain.add_opening()
    steps = open_chain(CLUSTER_ID, BROKER, lease_s=LEASE_S)

    async def scenario() -> Opened:
        rest = resume(steps, await stop_before(chain.runner, steps, Wait))
        request: Request = await stop_before(chain.runner, rest, what)
        chain.register(open_chain_row())
        chain.register_cluster(EPOCH + 1)
        chain.add_take()
        if what is ListKeys:
            chain.add_checkpoint()
        return await chain.runner.run(resume(rest, request))

    assert run(scenario()).epoch == EPOCH + 1


def test_a_maker_that_was_only_slow_draws_another_epoch() -> None:
    """It goes on with its opening stored, and finds that the row has moved past it."""
    chain = BuiltChain()
    chain.register_cluster(EPOCH)
    slow = open_chain(CLUSTER_ID, BROKER, lease_s=LEASE_S)
    request = next(slow)
    while not isinstance(request, Create):
        request = slow.send(answer(chain, request))
    chain.objects.create(request.key, request.parts)

    assert run(open_one(chain, broker=1)).epoch == EPOCH + 1

    request = slow.send(None)
    assert isinstance(request, PutRow)
    assert run(chain.runner.run(resume(slow, request))).epoch == EPOCH + 2


def test_a_reader_of_a_drawn_epoch_finds_its_chain() -> None:
    """Also in a copy of the registry that was made in the midst of a start."""
    chain = BuiltChain()
    chain.register_cluster(EPOCH)
    steps = open_chain(CLUSTER_ID, BROKER, lease_s=LEASE_S)
    request = next(steps)
    while not isinstance(request, UpdateRow):
        if isinstance(request, Create):
            chain.objects.create(request.key, request.parts)
            request = steps.send(None)
        else:
            request = steps.send(run(chain.runner._perform(request)))

    assert run(chain.runner.registry.get(CHAIN, chain_sk(EPOCH))) is not None


def answer(chain: BuiltChain, request: Request) -> object:
    async def one() -> object:
        return await chain.runner.run(only(request))

    return run(one())


def only(request: Request) -> Steps[object]:
    found: object = yield request
    return found


@pytest.mark.parametrize("lost_seqs", [1, 2])
def test_a_registry_older_than_the_log_is_refused(lost_seqs: int) -> None:
    """Restored from a copy that does not know the last chain, which holds segments."""
    chain = BuiltChain()
    chain.register_cluster(EPOCH)
    chain.add_opening()
    for _ in range(lost_seqs):
        chain.add(chain.frozen(chain.builder()))

    with pytest.raises(Refused, match="logstore restore"):
        run(open_one(chain))


def test_a_chain_row_of_an_epoch_not_drawn_yet_is_refused() -> None:
    chain = BuiltChain()
    chain.register_cluster(EPOCH)
    chain.register(ChainRow(broker=1, status=ChainStatus.OPEN))

    with pytest.raises(Refused, match="logstore restore"):
        run(open_one(chain))


def test_without_a_cluster_row_nothing_is_opened() -> None:
    with pytest.raises(Refused, match="no cluster row"):
        run(open_one(BuiltChain()))


def test_the_registry_of_another_cluster_is_refused() -> None:
    chain = BuiltChain()
    chain.register_cluster(EPOCH)

    with pytest.raises(Refused, match="another cluster"):
        run(chain.runner.run(open_chain(bytes(16), BROKER, lease_s=LEASE_S)))


def test_something_else_under_the_opening_is_refused() -> None:
    chain = BuiltChain()
    chain.register_cluster(EPOCH)
    chain.objects.create(segment_key(EPOCH, 0), [b"rubbish"])

    with pytest.raises(Refused, match="does not begin with an opening"):
        run(open_one(chain))
