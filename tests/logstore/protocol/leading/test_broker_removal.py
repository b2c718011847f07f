"""The row of a broker goes when its chain is sealed and no broker renews it, and not before."""

from dataclasses import replace

import pytest

from logstore.errors import ConditionFailed
from logstore.formats.broker_row import BrokerRow, BrokerStatus
from logstore.formats.chain_row import ChainRow, ChainStatus
from logstore.protocol.leading.broker_removal import BrokerNotOver, UnknownBroker, remove_broker
from logstore.protocol.steps import DeleteRow, Steps

ROW = BrokerRow(
    epoch=5, heartbeat=9, host="h", port=1, rack="", lock="l", status=BrokerStatus.FENCED
)


def until_deletion(row: BrokerRow, status: ChainStatus) -> tuple[Steps[None], DeleteRow]:
    steps = remove_broker(7)
    next(steps)
    steps.send(row.row())
    request = steps.send(ChainRow(broker=7, status=status).row())
    assert isinstance(request, DeleteRow)
    return steps, request


def test_it_goes_as_it_was_read() -> None:
    steps, request = until_deletion(ROW, ChainStatus.SEALED)

    assert (request.pk, request.sk) == ("broker", "7")
    assert {(one.attribute, one.value) for one in request.conditions} == {  # type: ignore[union-attr]
        ("epoch", 5),
        ("heartbeat", 9),
        ("status", "fenced"),
    }
    with pytest.raises(StopIteration):
        steps.send(None)


@pytest.mark.parametrize("status", [ChainStatus.OPEN, ChainStatus.FENCED])
def test_a_chain_that_may_grow_keeps_its_broker(status: ChainStatus) -> None:
    with pytest.raises(BrokerNotOver, match="not sealed"):
        until_deletion(ROW, status)


def test_one_that_renews_is_kept() -> None:
    steps, _ = until_deletion(ROW, ChainStatus.SEALED)

    with pytest.raises(BrokerNotOver, match="renews"):
        steps.throw(ConditionFailed("no", replace(ROW, heartbeat=10).row()))


def test_one_that_another_removed_is_gone() -> None:
    steps, _ = until_deletion(ROW, ChainStatus.SEALED)

    with pytest.raises(StopIteration):
        steps.throw(ConditionFailed("no", None))


def test_one_without_a_row_is_unknown() -> None:
    steps = remove_broker(7)
    next(steps)

    with pytest.raises(UnknownBroker):
        steps.send(None)
