"""The directory store: its files, its folders and what its errors mean."""

import errno
import fcntl
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import AlreadyExists, Invalid, NotFound, OutcomeUnknown, Retryable
from logstore.objects import files
from logstore.objects.directory import DirectoryStore
from logstore.ports.objects import Buffer

linux_only = pytest.mark.skipif(not files.CAN_LINK_UNNAMED, reason="no unnamed files here")


@pytest.fixture(params=[pytest.param(True, marks=linux_only), False], ids=["unnamed", "named"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "root", unnamed_files=request.param)


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def fail(code: int) -> Callable[..., None]:
    def failing(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return failing


def test_an_object_is_a_read_only_file_of_its_key_and_nothing_else(
    store: DirectoryStore, tmp_path: Path
) -> None:
    store.create("a/b/c", [b"xyz"])
    assert files_below(tmp_path) == {"root/a/b/c"}
    path = tmp_path / "root/a/b/c"
    assert path.read_bytes() == b"xyz"
    assert stat.S_IMODE(path.stat().st_mode) & 0o222 == 0


def test_nothing_is_made_before_the_first_create(store: DirectoryStore, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        store.get("a")
    store.delete("a")
    assert list(store.list("")) == []
    assert store.sweep() == 0
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_a_refused_create_leaves_no_file_behind(store: DirectoryStore, tmp_path: Path) -> None:
    store.create("a/b", [b"x"])
    with pytest.raises(AlreadyExists):
        store.create("a/b", [b"y"])
    assert files_below(tmp_path) == {"root/a/b"}


def test_a_key_cannot_be_a_path_prefix_of_another(store: DirectoryStore) -> None:
    store.create("a/b/c", [b"x"])
    for key in ("a", "a/b", "a/b/c/d", "a/b/c/d/e"):
        with pytest.raises(Invalid):
            store.create(key, [b"x"])
    assert [info.key for info in store.list("")] == ["a/b/c"]


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Invalid, match="directory="):
        DirectoryStore(tmp_path / "file").create("a", [b"x"])


def test_a_folder_that_was_removed_is_made_again(store: DirectoryStore, tmp_path: Path) -> None:
    store.create("a/b/c", [b"x"])
    (tmp_path / "root/a/b/c").unlink()
    (tmp_path / "root/a/b").rmdir()
    store.create("a/b/d", [b"y"])
    assert [info.key for info in store.list("")] == ["a/b/d"]


def test_a_list_shows_objects_alone(store: DirectoryStore, tmp_path: Path) -> None:
    store.create("a/b", [b"x"])
    root = tmp_path / "root"
    (root / ".tmp").mkdir(exist_ok=True)
    (root / ".tmp/1-1").write_bytes(b"unfinished")
    (root / "a/.b.crc").write_bytes(b"of another program")
    (root / "empty").mkdir()
    os.mkfifo(root / "pipe")
    (root / "ä").write_bytes(b"no key")
    assert [info.key for info in store.list("")] == ["a/b"]


def test_bytes_are_synced_before_the_name_and_the_name_before_the_answer(
    store: DirectoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = record_calls(monkeypatch)
    store.create("a/b/c", [b"x"])
    root = tmp_path / "root"
    folders = [tmp_path, root, root / "a"]  # each folder that was made, by the one above it
    assert done == [*(f"sync {f}" for f in folders), "sync bytes", "link", f"sync {root / 'a/b'}"]
    done.clear()
    store.create("a/b/d", [b"x"])
    assert done == ["sync bytes", "link", f"sync {root / 'a/b'}"]


def test_an_object_that_was_there_is_durable_before_the_answer(
    store: DirectoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create("a/b", [b"x"])
    done = record_calls(monkeypatch)
    with pytest.raises(AlreadyExists):
        store.create("a/b", [b"y"])
    assert done[-1] == f"sync {tmp_path / 'root/a'}"
    monkeypatch.setattr(files, "sync_folder", fail(errno.EIO))
    with pytest.raises(OutcomeUnknown):
        store.create("a/b", [b"y"])


def test_folders_that_another_process_made_are_synced_at_first_use(
    store: DirectoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    (root / "a/b").mkdir(parents=True)  # its maker may have crashed before it synced them
    done = record_calls(monkeypatch)
    store.create("a/b/c", [b"x"])
    assert done[:2] == [f"sync {root}", f"sync {root / 'a'}"]


@linux_only
def test_syncing_bytes_asks_the_system_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    monkeypatch.setattr(os, "fsync", synced.append)
    DirectoryStore(tmp_path).create("a", [b"x"])
    assert len(synced) == 2


def record_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    done: list[str] = []
    sync_data, sync_folder, link = files.sync_data, files.sync_folder, files._link

    def recorded_sync_data(descriptor: int) -> None:
        sync_data(descriptor)
        done.append("sync bytes")

    def recorded_sync_folder(folder: Path) -> None:
        sync_folder(folder)
        done.append(f"sync {folder}")

    def recorded_link(source: Path, path: Path, call: Callable[[], None]) -> None:
        link(source, path, call)
        done.append("link")

    monkeypatch.setattr(files, "sync_data", recorded_sync_data)
    monkeypatch.setattr(files, "sync_folder", recorded_sync_folder)
    monkeypatch.setattr(files, "_link", recorded_link)
    return done


@pytest.mark.parametrize("step", ["write_object", "sync_data"])
def test_an_error_before_the_link_means_that_nothing_happened(
    store: DirectoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    store.create("a/there", [b"x"])
    with monkeypatch.context() as patch, pytest.raises(Retryable):
        patch.setattr(files, step, fail(errno.EIO))
        store.create("a/b", [b"x"])
    assert files_below(tmp_path) == {"root/a/there"}
    store.create("a/b", [b"x"])


def test_an_error_after_the_link_leaves_the_outcome_unknown(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create("a/there", [b"x"])
    with monkeypatch.context() as patch, pytest.raises(OutcomeUnknown):
        patch.setattr(files, "sync_folder", fail(errno.EIO))
        store.create("a/b", [b"x"])
    with pytest.raises(AlreadyExists):
        store.create("a/b", [b"x"])


def test_a_link_that_ends_in_an_error_of_the_disk_leaves_the_outcome_unknown(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", fail(errno.EIO))
    with pytest.raises(OutcomeUnknown):
        store.create("a/b", [b"x"])


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EISDIR])
def test_without_unnamed_files_named_ones_are_used_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    asked = 0

    def refuse(folder: Path) -> int:
        nonlocal asked
        asked += 1
        raise OSError(code, os.strerror(code), str(folder))

    monkeypatch.setattr(files, "open_unnamed", refuse)
    store = DirectoryStore(tmp_path, unnamed_files=True)
    store.create("a/b", [b"x"])
    store.create("a/c", [b"y"])
    assert [store.get("a/b"), store.get("a/c"), asked] == [b"x", b"y", 1]


def test_a_sweep_removes_what_dead_writers_left_and_nothing_of_living_ones(
    tmp_path: Path,
) -> None:
    store = DirectoryStore(tmp_path, unnamed_files=False)
    store.create("a/b", [b"x"])
    for name in ("1-0", "1-1", f"{os.getpid()}-1"):
        (tmp_path / ".tmp" / name).write_bytes(b"half")
    with (tmp_path / ".tmp/1-1").open("rb") as living:
        fcntl.flock(living, fcntl.LOCK_EX)
        assert store.sweep() == 2
        assert files_below(tmp_path) == {"a/b", ".tmp/1-1"}
    assert store.sweep() == 1
    assert store.get("a/b") == b"x"


def test_a_temporary_name_that_a_dead_process_left_is_passed_over(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path, unnamed_files=False)
    (tmp_path / ".tmp").mkdir()
    for number in range(3):
        (tmp_path / f".tmp/{os.getpid()}-{number}").write_bytes(b"half")
    store.create("a", [b"x"])
    assert store.get("a") == b"x"


def test_an_unfinished_file_that_was_swept_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DirectoryStore(tmp_path, unnamed_files=False)
    sync_data = files.sync_data

    def swept_in_between(descriptor: int) -> None:
        sync_data(descriptor)
        for path in (tmp_path / ".tmp").iterdir():
            path.unlink()
        monkeypatch.setattr(files, "sync_data", sync_data)

    monkeypatch.setattr(files, "sync_data", swept_in_between)
    store.create("a", [b"x"])
    assert store.get("a") == b"x"


@given(
    parts=st.lists(st.binary(max_size=40), max_size=8),
    takes=st.lists(st.integers(1, 50), min_size=1),
)
def test_all_parts_are_written_however_little_is_taken_at_a_time(
    parts: list[bytes], takes: list[int]
) -> None:
    written = bytearray()
    turns = iter(takes * 400)

    def writev(_: int, buffers: Sequence[Buffer]) -> int:
        assert buffers, "an empty write would say nothing"
        taken = b"".join(buffers)[: next(turns)]
        written.extend(taken)
        return len(taken)

    files.write_parts(0, parts, writev)
    assert written == b"".join(parts)


@pytest.mark.parametrize("odd_bytes", [-4097, -4096, -1, 0, 1, 4095, 4096])
@pytest.mark.parametrize("buffers", [1, 2, 8])
def test_a_big_object_comes_back_whole_wherever_it_ends(
    store: DirectoryStore, buffers: int, odd_bytes: int
) -> None:
    data = bytes(range(251)) * 33_500  # over 8 MiB, of no period that a block has
    size_bytes = buffers * 2**20 + odd_bytes
    assert files.DIRECT_BYTES_MIN < size_bytes < len(data)
    parts = [data[:1], data[1:5000], b"", data[5000:700_000], data[700_000:size_bytes]]
    store.create("big", parts)
    assert store.get("big") == data[:size_bytes]


@given(takes=st.lists(st.integers(1, 9000), min_size=1))
def test_direct_writes_go_on_after_short_and_refused_ones(takes: list[int]) -> None:
    data = bytes(range(251)) * 80
    with tempfile.TemporaryFile() as file:
        turns = iter(takes)

        def write(descriptor: int, rest: memoryview) -> int:
            taken = next(turns, None)
            if taken is None or len(rest) % 7 == 6:
                raise OSError(errno.EINVAL, "misaligned")
            return os.write(descriptor, rest[:taken])

        files._write_aligned(file.fileno(), memoryview(data), write)
        assert files.read_at(file.fileno(), 0, sys.maxsize) == data


def test_a_file_system_without_direct_writes_gets_ordinary_ones(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "set_direct", lambda *_: False)
    data = os.urandom(2**20 + 77)
    store.create("big", [data[:1000], data[1000:]])
    assert store.get("big") == data


def test_a_disk_that_takes_nothing_is_an_error_not_an_endless_loop() -> None:
    with pytest.raises(OSError, match="nothing was written"):
        files.write_parts(0, [b"x"], lambda *_: 0)
    with pytest.raises(OSError, match="nothing was written"):
        files._write_aligned(0, memoryview(b"x"), lambda *_: 0)


def test_reads_of_an_open_file_are_not_cut_by_its_size_in_one_call(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    with (tmp_path / "file").open("rb") as file:
        assert files.read_at(file.fileno(), 3, sys.maxsize) == b"3456789"
        assert files.read_at(file.fileno(), 2**63 - 1, 1) == b""
