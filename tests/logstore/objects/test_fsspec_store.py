"""Any URL that fsspec opens can be read, by code not ours; nothing is written through it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from logstore.errors import Invalid, LogstoreError, NotFound
from logstore.objects.directory import DirectoryStore
from logstore.objects.fsspec_store import FsspecStore
from logstore.objects.s3 import S3BlockingStore
from logstore.objects.s3_options import S3Options
from logstore.ports.objects import BlockingObjectStore
from tests.servers.buckets import new_location
from tests.servers.locked_moto import aws_environment, locked_moto

OBJECTS = {"chains/aa/1/0": b"opening", "chains/aa/1/1": b"0123456789", "cluster.json": b"{}"}


def filled(store: BlockingObjectStore) -> BlockingObjectStore:
    for key, data in OBJECTS.items():
        store.create(key, [data])
    return store


@pytest.fixture(params=["file", "s3"])
def eye(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FsspecStore]:
    if request.param == "file":
        filled(DirectoryStore(tmp_path / "log"))
        yield FsspecStore(f"file://{tmp_path}/log", S3Options())
        return
    with aws_environment():
        options = S3Options.of({"storage.endpoint": locked_moto()})
        location = new_location(locked_moto())
        filled(S3BlockingStore(location, options)).close()
        yield FsspecStore(location.url, options)


def test_it_reads_what_our_own_stores_wrote(eye: FsspecStore) -> None:
    for key, data in OBJECTS.items():
        assert eye.get(key) == data
    assert eye.get_range("chains/aa/1/1", 3, 4) == b"3456"
    assert eye.get_range("chains/aa/1/1", 8, 100) == b"89"
    assert eye.get_range("chains/aa/1/1", 3, 0) == b""
    found = [(info.key, info.size_bytes) for info in eye.list("chains/")]
    assert found == [("chains/aa/1/0", 7), ("chains/aa/1/1", 10)]
    assert list(eye.list("nothing/")) == []


def test_what_is_not_there_is_not_found(eye: FsspecStore) -> None:
    with pytest.raises(NotFound):
        eye.get("chains/aa/1/2")
    with pytest.raises(NotFound):
        eye.get_range("chains/aa/1/2", 0, 10)


def test_nothing_is_written_through_it(eye: FsspecStore) -> None:
    with pytest.raises(Invalid, match="only read"):
        eye.create("key", [b"data"])
    with pytest.raises(Invalid, match="only read"):
        eye.delete("cluster.json")
    assert eye.get("cluster.json") == b"{}"


def test_a_url_that_nothing_opens_is_refused() -> None:
    with pytest.raises(LogstoreError, match="fsspec does not open this URL"):
        FsspecStore("nosuchscheme://somewhere/log", S3Options())
