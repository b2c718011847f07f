"""What is deleted can be had back: the same promises of a directory, a bucket and memory."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from logstore.errors import NotFound
from logstore.objects.directory import DirectoryStore
from logstore.objects.memory import MemoryObjects
from logstore.objects.s3 import S3BlockingStore
from logstore.objects.s3_options import S3Options
from logstore.objects.s3_versions import S3Versions
from logstore.ports.clock import SystemClock
from logstore.ports.objects import BlockingObjectStore
from logstore.ports.trash import Trash
from tests.servers.buckets import new_bucket, s3_client
from tests.servers.locked_moto import aws_environment, locked_moto


class Pair(NamedTuple):
    store: BlockingObjectStore
    trash: Trash


def memory(_: Path) -> Pair:
    objects = MemoryObjects(SystemClock())
    return Pair(objects, objects)


def directory(root: Path) -> Pair:
    """Another process's view of the trash."""
    return Pair(DirectoryStore(root), DirectoryStore(root))


def bucket(_: Path) -> Pair:
    return versioned_bucket(locked_moto())


def versioned_bucket(endpoint: str) -> Pair:
    location = replace(new_bucket(endpoint), prefix="a/log")
    s3_client(endpoint).put_bucket_versioning(
        Bucket=location.bucket, VersioningConfiguration={"Status": "Enabled"}
    )
    options = S3Options(endpoint=endpoint)
    store = S3BlockingStore(location, options)
    return Pair(store, S3Versions(location, options, store))


@pytest.fixture(
    params=[memory, directory, pytest.param(bucket, marks=pytest.mark.slow)],
    ids=lambda make: make.__name__,
)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    make: Callable[[Path], Pair] = request.param
    with aws_environment():
        yield make(tmp_path / "log")


def keys(trash: Trash, prefix: str) -> list[str]:
    return [one.key for one in trash.deleted(prefix)]


def test_what_is_deleted_comes_back_with_its_bytes(pair: Pair) -> None:
    pair.store.create("chains/aa/1/0", [b"zero"])
    pair.store.create("chains/aa/1/1", [b"one"])
    pair.store.delete("chains/aa/1/1")

    (one,) = pair.trash.deleted("chains/aa/")
    assert (one.key, one.size_bytes) == ("chains/aa/1/1", 3)
    assert 0 <= one.deleted_ms - one.modified_ms < 60_000 or one.deleted_ms % 3_600_000 == 0
    assert pair.trash.undelete(one)
    assert pair.store.get("chains/aa/1/1") == b"one"
    assert [info.key for info in pair.store.list("")] == ["chains/aa/1/0", "chains/aa/1/1"]


def test_neither_get_nor_list_sees_what_is_deleted(pair: Pair) -> None:
    pair.store.create("a/b", [b"x"])
    pair.store.delete("a/b")

    with pytest.raises(NotFound):
        pair.store.get("a/b")
    assert list(pair.store.list("")) == []


def test_only_keys_with_the_prefix_are_listed_in_their_order(pair: Pair) -> None:
    for key in ("a/2", "a/10", "a-1", "b/1", "a/1"):
        pair.store.create(key, [b"x"])
        pair.store.delete(key)

    assert keys(pair.trash, "a/") == ["a/1", "a/10", "a/2"]
    assert keys(pair.trash, "") == ["a-1", "a/1", "a/10", "a/2", "b/1"]
    assert keys(pair.trash, "c") == []


def test_a_key_that_is_there_again_is_not_reported_and_never_replaced(pair: Pair) -> None:
    pair.store.create("key", [b"first"])
    pair.store.delete("key")
    (first,) = pair.trash.deleted("key")
    pair.store.create("key", [b"second"])

    assert keys(pair.trash, "") == []
    assert not pair.trash.undelete(first)
    assert pair.store.get("key") == b"second"


def test_each_life_of_a_key_is_kept_the_first_one_first(pair: Pair) -> None:
    for data in (b"first", b"second!"):
        pair.store.create("key", [data])
        pair.store.delete("key")
        pair.store.delete("key")  # a repeated round of deletes

    first, second = pair.trash.deleted("")
    assert (first.size_bytes, second.size_bytes) == (5, 7)
    assert pair.trash.undelete(first)
    assert pair.store.get("key") == b"first"


def test_it_can_be_deleted_and_had_back_again(pair: Pair) -> None:
    pair.store.create("key", [b"x"])
    for _ in range(3):
        pair.store.delete("key")
        assert pair.trash.undelete(next(iter(pair.trash.deleted("key"))))
    assert pair.store.get("key") == b"x"


def test_deleting_what_is_not_there_keeps_nothing(pair: Pair) -> None:
    pair.store.delete("missing")
    assert keys(pair.trash, "") == []


@pytest.mark.slow
@pytest.mark.parametrize("server", ["versitygw_endpoint", "ministack_endpoint"])
def test_what_is_deleted_comes_back_from_other_servers(
    request: pytest.FixtureRequest, server: str
) -> None:
    """Also where no object can be created over a delete marker (versitygw 1.8.0)."""
    endpoint: str = request.getfixturevalue(server)
    with aws_environment():
        store, trash = versioned_bucket(endpoint)
        for key in ("chains/aa/1/1", "chains/aa/1/2"):
            store.create(key, [key.encode()])
            store.delete(key)
            store.delete(key)
        first, second = trash.deleted("chains/")
        assert trash.undelete(first)
        assert not trash.undelete(first)
        assert trash.undelete(second)
        assert store.get(first.key) == first.key.encode()
        assert [info.key for info in store.list("")] == [first.key, second.key]
        assert keys(trash, "") == []
