"""The history checker by hand: what the simulations trust it to notice, rule by rule."""

import pytest

from logstore.testing.history import ClientHistory, Partition, StoredRecord

ORDERS = Partition(bytes(range(16)), 0)
READER = "reader"


def written(*values: bytes) -> ClientHistory:
    """Each value was sent and acknowledged as a batch of its own, from offset 0 on."""
    history = ClientHistory()
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


def rules(history: ClientHistory) -> list[str]:
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


def kept_until(history: ClientHistory, log_start: int, cutoff_ms: int) -> list[str]:
    """What is wrong when retention raises log start while timestamps below the cutoff are old."""
    history.expire(ORDERS, log_start, cutoff_ms)
    return rules(history)


def aged(*timestamps: int) -> ClientHistory:
    """A batch of each timestamp was acknowledged, from offset 0 on."""
    history = ClientHistory()
    for offset, timestamp in enumerate(timestamps):
        value = b"%d" % offset
        sent = history.send(ORDERS, (value,), idempotent=True, timestamp_ms=timestamp)
        history.ack(sent, offset)
    return history


def test_retention_may_delete_what_is_old_and_nothing_behind_a_young_record() -> None:
    assert kept_until(aged(10, 20, 30), 2, 21) == []
    assert kept_until(aged(10, 20, 30), 2, 20) == ["H22"]
    assert kept_until(aged(30, 10, 20), 2, 25) == ["H22"]


def test_what_was_asked_to_be_deleted_before_may_be_young() -> None:
    history = aged(30, 30, 10)
    history.ask_log_start(ORDERS, 2)
    assert kept_until(history, 3, 20) == []


def test_a_record_that_gets_known_after_retention_deleted_it_is_judged_then() -> None:
    history = aged(10)
    late = history.send(ORDERS, (b"late",), idempotent=False, timestamp_ms=30)
    assert kept_until(history, 2, 20) == []
    history.ack(late, 1)
    assert rules(history) == ["H22"]


def test_retention_may_pass_a_young_record_only_after_the_owner_of_the_table_deleted_it() -> None:
    history = aged(10, 20, 30)
    history.edit(ORDERS, [1])
    assert kept_until(history, 2, 15) == []
    history = aged(10, 20, 30)
    assert kept_until(history, 2, 15) == ["H22"]
    history.edit(ORDERS, [1])
    history.edit(ORDERS, [2])
    history.expire(ORDERS, 3, 25)
    assert rules(history) == ["H22"]


def test_a_restore_may_find_the_log_start_behind_rows_that_an_owner_deleted() -> None:
    history = aged(10, 20, 30)
    history.ask_log_start(ORDERS, 1)
    history.edit(ORDERS, [1])
    assert history.start_max(ORDERS) == 1
    history.put_back()
    assert history.start_max(ORDERS) == 2


def sized(*values: bytes) -> ClientHistory:
    """Batches of producers that are not idempotent, each sent once."""
    history = ClientHistory()
    for offset, value in enumerate(values):
        sent = history.send(ORDERS, (value,), idempotent=False)
        history.try_again(sent)
        history.ack(sent, offset)
    return history


def test_retention_by_size_leaves_as_much_as_it_has_to() -> None:
    history = written(bytes(1_000), bytes(999), b"c" * 1_000)
    history.expire_surplus(ORDERS, 1, keep_bytes=2_000, table_bytes=0)
    assert rules(history) == []
    history.expire_surplus(ORDERS, 2, keep_bytes=2_000, table_bytes=1_000)
    assert rules(history) == []
    history.expire_surplus(ORDERS, 3, keep_bytes=2_000, table_bytes=1_900)
    assert rules(history) == ["H22"]


def test_a_batch_may_lie_in_the_log_as_often_as_it_was_sent() -> None:
    history = sized(bytes(1_000))
    sent = history.send(ORDERS, (b"b" * 1_000,), idempotent=False)
    for _ in range(3):
        history.try_again(sent)
    history.expire_surplus(ORDERS, 2, keep_bytes=4_000, table_bytes=0)
    assert rules(history) == []
    history.expire_surplus(ORDERS, 3, keep_bytes=5_000, table_bytes=0)
    assert rules(history) == ["H22"]


def test_offsets_that_get_known_after_retention_by_size_are_judged_at_the_end() -> None:
    history = written(b"a")
    late = history.send(ORDERS, (b"b" * 1_000,), idempotent=True)
    history.expire_surplus(ORDERS, 2, keep_bytes=1_000, table_bytes=0)
    assert rules(history) == []
    history.ack(late, 1)
    history.check_end({ORDERS: []}, {ORDERS: 2})
    assert rules(history) == ["H22"]
