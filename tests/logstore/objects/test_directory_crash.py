"""The directory store against real processes: kills, a full disk, missing rights.

A full disk is a tmpfs of 1 MiB in a mount namespace of the child; where no namespace may be made,
a limit on the size of files (RLIMIT_FSIZE), which the store answers in the same way.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from logstore.objects import files
from logstore.objects.directory import DirectoryStore

DEADLINE_S = 30

WRITER = """
import sys
from logstore.objects.directory import DirectoryStore
root, name, unnamed = sys.argv[1:]
store = DirectoryStore(root, unnamed_files=unnamed == "True")
number = 0
while True:
    size = number * 7919 % 500_000
    store.create(f"{name}/{number % 3}/{number}", [number.to_bytes(8, "big"), b"x" * size])
    print(number, flush=True)
    number += 1
"""

FULL_DISK = """
import os, sys
from logstore.errors import Retryable
from logstore.objects.directory import DirectoryStore
root, unnamed = sys.argv[1:]
store = DirectoryStore(root, unnamed_files=unnamed == "True")
store.create("a/small", [b"x"])
try:
    store.create("a/big", [b"x" * 700_000, b"y" * 700_000])
except Retryable as error:
    assert f"directory={root}" in str(error) and "free_bytes=" in str(error), error
else:
    raise SystemExit("a create succeeded that cannot have")
left = sorted(name for _, _, names in os.walk(root) for name in names)
assert left == ["small"], left
os.unlink(os.path.join(root, "a", "small"))
store.create("a/fits", [b"x" * 500_000])
print("refused and recovered")
"""

NO_RIGHT = """
import os, sys
from logstore.errors import Refused
from logstore.objects.directory import DirectoryStore
if os.geteuid() == 0:
    os.setgroups([])
    os.setuid(65534)
store = DirectoryStore(sys.argv[1])
for call in (
    lambda: store.create("a/c", [b"x"]),
    lambda: store.get("a/b"),
    lambda: store.delete("a/b"),
    lambda: list(store.list("")),
):
    try:
        call()
    except Refused:
        print("refused")
"""

unnamed_or_not = pytest.mark.parametrize(
    "unnamed",
    [
        pytest.param(
            True,
            marks=pytest.mark.skipif(not files.CAN_LINK_UNNAMED, reason="no unnamed files here"),
        ),
        False,
    ],
)


@pytest.mark.slow
@unnamed_or_not
def test_a_killed_writer_leaves_whole_objects_and_all_it_reported(
    tmp_path: Path, unnamed: bool
) -> None:
    store = DirectoryStore(tmp_path, unnamed_files=unnamed)
    for life in range(4):
        name = f"life-{life}"
        reported = run_and_kill([str(tmp_path), name, str(unnamed)], after_lines=10 + 17 * life)
        numbers = set()
        for info in store.list(name):
            data = store.get(info.key)
            number = int.from_bytes(data[:8], "big")
            assert info.key == f"{name}/{number % 3}/{number}"
            assert data[8:] == b"x" * (number * 7919 % 500_000)
            numbers.add(number)
        assert set(range(reported)) <= numbers <= set(range(reported + 1))
    store.sweep()
    assert not list(tmp_path.glob(".tmp/*"))


def run_and_kill(arguments: Sequence[str], after_lines: int) -> int:
    """How many creates the writer reported before it was killed."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, *arguments], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(after_lines)]
        writer.kill()
        lines += writer.stdout.readlines()
        writer.wait(DEADLINE_S)
    complete = [line for line in lines if line.endswith("\n")]
    assert [int(line) for line in complete] == list(range(len(complete)))
    return len(complete)


@unnamed_or_not
def test_a_full_disk_is_retryable_and_leaves_nothing(tmp_path: Path, unnamed: bool) -> None:
    root = str(tmp_path)
    child = [sys.executable, "-c", FULL_DISK, root, str(unnamed)]
    in_tmpfs = 'mount -t tmpfs -o size=1m tmpfs "$1" && shift && exec "$@"'
    limited = 'ulimit -f 1000 && shift && exec "$@"'
    if subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode == 0:
        command = ["unshare", "-rm", "sh", "-c", in_tmpfs, "sh", root, *child]
    else:
        command = ["bash", "-c", limited, "bash", root, *child]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert (done.stdout.strip(), done.returncode) == ("refused and recovered", 0), done.stderr


def test_a_directory_of_another_program_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    DirectoryStore(root).create("a/b", [b"x"])
    root.chmod(0o000)
    try:
        done = subprocess.run(
            [sys.executable, "-c", NO_RIGHT, str(root)],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
    finally:
        root.chmod(0o700)
    assert done.stdout.split() == ["refused"] * 4, done.stderr
