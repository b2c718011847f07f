"""What every object store promises, whatever it is made of."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from logstore.errors import AlreadyExists, Invalid, NotFound
from logstore.ports.objects import BlockingObjectStore

Race = Callable[[Callable[[int], Any]], Sequence[Any]]  # by eight threads: see conftest.py


def keys(store: BlockingObjectStore, prefix: str) -> list[str]:
    return [info.key for info in store.list(prefix)]


def test_an_object_is_the_concatenation_of_its_parts(store: BlockingObjectStore) -> None:
    store.create("a/parts", [b"one", bytearray(b"two"), memoryview(b"-three-")[1:6], b""])
    assert store.get("a/parts") == b"onetwothree"


def test_an_object_may_be_empty(store: BlockingObjectStore) -> None:
    store.create("no-parts", [])
    store.create("empty-part", [b""])
    assert store.get("no-parts") == store.get("empty-part") == b""
    assert store.get_range("no-parts", 0, 10) == b""


def test_an_object_may_have_thousands_of_parts(store: BlockingObjectStore) -> None:
    parts = [number.to_bytes(2, "big") * (number % 5) for number in range(5000)]
    store.create("many", parts)
    assert store.get("many") == b"".join(parts)


def test_an_object_of_eight_mebibytes_comes_back_whole(store: BlockingObjectStore) -> None:
    data = bytes(range(256)) * (8 * 4096)
    store.create("big", [data[:5_000_001], data[5_000_001:]])
    assert store.get("big") == data
    assert store.get_range("big", 5_000_000, 3) == data[5_000_000:5_000_003]


def test_a_second_create_is_refused_and_changes_nothing(store: BlockingObjectStore) -> None:
    store.create("once", [b"first"])
    with pytest.raises(AlreadyExists):
        store.create("once", [b"second"])
    assert store.get("once") == b"first"


def test_what_the_caller_does_to_its_buffer_afterwards_does_not_show(
    store: BlockingObjectStore,
) -> None:
    buffer = bytearray(b"before")
    store.create("buffer", [buffer])
    buffer[:] = b"after."
    assert store.get("buffer") == b"before"


@pytest.mark.slow
def test_of_racing_creates_exactly_one_wins_and_its_bytes_are_there(
    store: BlockingObjectStore, race: Race
) -> None:
    for number in range(50):
        key = f"race/{number:020}"

        def attempt(racer: int, key: str = key) -> bool:
            try:
                store.create(key, [bytes([racer]) * 100, bytes([racer]) * 2000])
            except AlreadyExists:
                # The loser reads whose it is, so the winner's bytes must be there by now.
                assert len(store.get(key)) == 2100
                return False
            return True

        won = race(attempt)
        assert sum(won) == 1
        assert store.get(key) == bytes([won.index(True)]) * 2100


def test_racing_creates_of_different_keys_all_succeed(
    store: BlockingObjectStore, race: Race
) -> None:
    def attempt(racer: int) -> None:
        for number in range(10):
            store.create(f"new/{number}/{racer}", [f"{number} {racer}".encode()])

    race(attempt)
    assert len(keys(store, "new/")) == 10 * 8
    assert store.get("new/9/7") == b"9 7"


def test_a_missing_object_is_not_found(store: BlockingObjectStore) -> None:
    store.create("folder/there", [b"x"])
    for key in ("missing", "folder/missing", "folder/there/below", "folder"):
        with pytest.raises(NotFound):
            store.get(key)
        with pytest.raises(NotFound):
            store.get_range(key, 0, 1)


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [
        (0, 10, b"0123456789"),
        (3, 4, b"3456"),
        (8, 100, b"89"),
        (9, 1, b"9"),
        (10, 1, b""),
        (11, 5, b""),
        (2**40, 2**40, b""),
        (0, 2**62, b"0123456789"),
        (4, 0, b""),
    ],
)
def test_a_range_ends_where_the_object_ends(
    store: BlockingObjectStore, start: int, length: int, expected: bytes
) -> None:
    store.create("digits", [b"0123456789"])
    assert store.get_range("digits", start, length) == expected


def test_a_range_cannot_begin_before_the_object(store: BlockingObjectStore) -> None:
    store.create("digits", [b"0123456789"])
    for start, length in ((-1, 5), (0, -1)):
        with pytest.raises(Invalid):
            store.get_range("digits", start, length)


def test_a_deleted_object_is_gone_and_its_key_is_free(store: BlockingObjectStore) -> None:
    store.create("a/b/c", [b"first"])
    store.delete("a/b/c")
    with pytest.raises(NotFound):
        store.get("a/b/c")
    assert keys(store, "") == []
    store.create("a/b/c", [b"second"])
    assert store.get("a/b/c") == b"second"


def test_deleting_what_is_not_there_is_no_error(store: BlockingObjectStore) -> None:
    store.create("folder/there", [b"x"])
    for key in ("missing", "folder/missing", "folder", "folder/there/below"):
        store.delete(key)
    assert store.get("folder/there") == b"x"


def test_a_list_is_in_key_order(store: BlockingObjectStore) -> None:
    # "-" and "." sort before "/", "0" after it: a walk of sorted folders would get this wrong.
    created = ["a-b", "a.b", "a/b", "a/a-", "a/a/a", "a0b", "a_", "b/2", "b/10", "B/1"]
    for key in created:
        store.create(key, [b"x"])
    assert keys(store, "") == sorted(created)


def test_a_list_takes_any_beginning_of_a_key(store: BlockingObjectStore) -> None:
    for key in ("c/1/x", "c/10/x", "c/2/x", "c/2/y", "d/2/x"):
        store.create(key, [b"x"])
    assert keys(store, "c/1") == ["c/1/x", "c/10/x"]
    assert keys(store, "c/1/") == ["c/1/x"]
    assert keys(store, "c/2/x") == ["c/2/x"]
    assert keys(store, "c/2/xx") == keys(store, "c/3/") == keys(store, "e") == []


def test_a_list_says_size_and_age(store: BlockingObjectStore) -> None:
    store.create("one", [b"x" * 7])
    store.create("two", [])
    one, two = store.list("")
    assert (one.size_bytes, two.size_bytes) == (7, 0)
    assert 1_700_000_000_000 < one.modified_ms <= two.modified_ms + 1000


@pytest.mark.slow
def test_a_list_goes_over_a_thousand_objects(store: BlockingObjectStore) -> None:
    created = [f"page/{number:04}" for number in range(1001)]
    for key in created:
        store.create(key, [b""])
    assert keys(store, "page/") == created


@pytest.mark.parametrize(
    "key",
    [
        *("", "/a", "a/", "a//b", "..", "../a", "a/../b", "./a", "a/.", ".hidden"),
        *("a\\b", "a\0b", "ä", "a\n", "x" * 256, "/".join(["x" * 99] * 11)),
    ],
)
def test_what_is_no_key_is_refused(store: BlockingObjectStore, key: str) -> None:
    with pytest.raises(Invalid):
        store.create(key, [b"x"])
    with pytest.raises(Invalid):
        store.get(key)
    with pytest.raises(Invalid):
        store.get_range(key, 0, 1)
    with pytest.raises(Invalid):
        store.delete(key)


@pytest.mark.parametrize("prefix", ["/", "../", "a/../", "a//", ".tmp/"])
def test_a_list_stays_inside_the_store(store: BlockingObjectStore, prefix: str) -> None:
    with pytest.raises(Invalid):
        list(store.list(prefix))
