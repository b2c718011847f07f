"""The history checker by hand: what the simulations trust it to notice, rule by rule."""

import pytest

from logstore.testing.history import History, Partition, StoredRecord

ORDERS = Partition(bytes(range(16)), 0)
READER = "reader"


def written(*values: bytes) -> History:
    """Each value was sent and acknowledged as a batch of its own, from offset 0 on."""
    history = History()
    for offset, value in enumerate(values):
        sent = history.send(ORDERS, (value,), idempotent=True, sender="producer")
        history.ack(sent, offset)
    return history


def stored(*values: bytes | None) -> list[StoredRecord]:
    """Of a table, by offset; None: the row is absent."""
    return [
        StoredRecord(offset, value, 0, -1, -1, -1)
        for offset, value in enumerate(values)
        if value is not None
    ]


def rules(history: History) -> list[str]:
    return [text.split(":")[0] for text in history.violations]


def test_rows_that_an_owner_deleted_may_be_read_until_that_is_final() -> None:
    history = written(b"a", b"b")
    history.edit(ORDERS, [0])
    history.read(ORDERS, 0, b"a")
    assert rules(history) == []

    history.forbid(ORDERS, [0])
    history.read(ORDERS, 1, b"b")
    assert rules(history) == []
    history.read(ORDERS, 0, b"a")
    assert rules(history) == ["H21"]


def test_rows_that_an_owner_deleted_are_forbidden_to_consumers_too() -> None:
    history = written(b"a", b"b", b"c")
    history.edit(ORDERS, [1])
    history.forbid(ORDERS, [1])
    history.assign(READER, ORDERS, 0)
    history.poll(READER, ORDERS, [(0, b"a"), (1, b"b"), (2, b"c")])
    assert rules(history) == ["H21"]


def test_a_consumer_may_go_on_behind_rows_that_an_owner_deleted_and_behind_no_others() -> None:
    history = written(b"a", b"b", b"c")
    history.edit(ORDERS, [1])
    history.assign(READER, ORDERS, 0)
    history.poll(READER, ORDERS, [(0, b"a"), (2, b"c")])
    assert rules(history) == []

    history.assign(READER, ORDERS, 0)
    history.poll(READER, ORDERS, [(2, b"c")])
    assert rules(history) == ["H7"]


def test_rows_that_an_owner_deleted_are_neither_lost_nor_unseen_at_the_end() -> None:
    history = written(b"a", b"b", b"c")
    history.edit(ORDERS, [1])
    for offset, value in ((0, b"a"), (2, b"c")):
        history.read(ORDERS, offset, value)
    left = {ORDERS: stored(b"a", None, b"c")}
    history.check_end(left, begins={ORDERS: 3}, all_was_read=True)
    assert rules(history) == []


@pytest.mark.parametrize("there", [(None, b"b"), (b"a", None)])
def test_a_row_that_is_absent_and_that_no_owner_deleted_is_lost(
    there: tuple[bytes | None, ...],
) -> None:
    history = written(b"a", b"b")
    history.check_end({ORDERS: stored(*there)}, begins={ORDERS: 2})
    assert "H1" in rules(history)
