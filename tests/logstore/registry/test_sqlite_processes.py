"""The SQLite registry among real processes: races, kills, a full disk.

A full disk is a tmpfs in a mount namespace of the child; skipped where none may be made.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from logstore.registry.sqlite import SqliteRows

DEADLINE_S = 30
PROCESSES = 4

COUNTER = """
import sys
from logstore.errors import ConditionFailed
from logstore.registry.sqlite import SqliteRows
from logstore.ports.registry import Comparison
rows = SqliteRows(sys.argv[1]).blocking()
done = 0
sys.stdin.readline()
while done < 50:
    value = rows.get("pk", "counter")["value"]
    term = Comparison("value", "=", value)
    try:
        rows.update_if("pk", "counter", {"value": value + 1}, [term], f"{sys.argv[2]}/{done}")
    except ConditionFailed:
        continue
    print(value)
    done += 1
rows.close()
"""

WRITER = """
import sys
from logstore.registry.sqlite import SqliteRows
rows = SqliteRows(sys.argv[1]).blocking()
number = 0
while True:
    rows.put_if(sys.argv[2], f"{number:06}", {"data": b"x" * (number * 7919 % 5000)}, [], "w")
    print(number, flush=True)
    number += 1
"""

FULL_DISK = """
import os, sys
from logstore.errors import NoRoom
from logstore.registry.sqlite import SqliteRows
folder = sys.argv[1]
filler = os.path.join(folder, "filler")
rows = SqliteRows(os.path.join(folder, "registry.db")).blocking()
rows.put_if("pk", "there", {"n": 1}, [], "w")
filling = os.open(filler, os.O_WRONLY | os.O_CREAT)
try:
    while os.write(filling, b"x" * 4096):
        pass
except OSError:
    os.close(filling)
try:
    rows.put_if("pk", "big", {"data": b"x" * 200_000}, [], "w")
except NoRoom as error:
    assert "free_bytes=" in str(error), error
else:
    raise SystemExit("a write succeeded that cannot have")
assert rows.get("pk", "there") == {"n": 1, "wid": "w"}
assert rows.get("pk", "big") is None
os.unlink(filler)
rows.put_if("pk", "big", {"data": b"x" * 200_000}, [], "w")
assert len(rows.get("pk", "big")["data"]) == 200_000
print("refused and recovered")
"""

FORGOTTEN = """
import sys
from logstore.registry.sqlite import SqliteRows
SqliteRows(sys.argv[1]).blocking().put_if("pk", "sk", {"n": 1}, [], "w")
print("written")
"""

FORK = """
import os, sys
from logstore.errors import Refused
from logstore.registry.sqlite import SqliteRows
from logstore.ports.registry import Comparison
rows = SqliteRows(sys.argv[1]).blocking()
rows.put_if("pk", "sk", {"n": 1}, [], "w")
child = os.fork()
if child == 0:
    for call in (lambda: rows.get("pk", "sk"), rows.close):
        try:
            call()
            os._exit(1)
        except Refused:
            pass
    own = SqliteRows(sys.argv[1]).blocking()
    own.update_if("pk", "sk", {"n": 2}, [Comparison("n", "=", 1)], "w")
    own.close()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
rows.update_if("pk", "sk", {"n": 3}, [Comparison("n", "=", 2)], "w")
rows.close()
print("refused, opened again, and the parent went on")
"""


def run_script(script: str, path: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, path],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_a_child_must_open_the_registry_for_itself(tmp_path: Path) -> None:
    output = run_script(FORK, str(tmp_path / "registry.db"))
    assert output == "refused, opened again, and the parent went on"


def test_a_forgotten_registry_does_not_keep_the_process_from_ending(tmp_path: Path) -> None:
    path = str(tmp_path / "registry.db")
    assert run_script(FORGOTTEN, path) == "written"
    rows = SqliteRows(path, "read").blocking()
    assert rows.get("pk", "sk") == {"n": 1, "wid": "w"}
    rows.close()


@pytest.mark.slow
def test_a_counter_raised_by_processes_misses_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "registry.db")
    rows = SqliteRows(path).blocking()
    rows.put_if("pk", "counter", {"value": 0}, (), "w")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", COUNTER, path, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    drawn: list[int] = []
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        output, _ = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0
        drawn += [int(line) for line in output.split()]
    assert sorted(drawn) == list(range(50 * PROCESSES))
    assert (rows.get("pk", "counter") or {})["value"] == 50 * PROCESSES
    rows.close()


@pytest.mark.slow
def test_a_killed_writer_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = str(tmp_path / "registry.db")
    reader = SqliteRows(path).blocking()
    for life in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, path, f"life-{life}"], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            lines = [writer.stdout.readline() for _ in range(5 + 30 * life)]
            writer.kill()
            lines += writer.stdout.readlines()
            writer.wait(DEADLINE_S)
        acknowledged = len([line for line in lines if line.endswith("\n")])
        found = reader.query(f"life-{life}", limit=100_000)
        assert len(found) in (acknowledged, acknowledged + 1)
        for number, (sk, row) in enumerate(found):
            assert sk == f"{number:06}"
            assert row["data"] == b"x" * (number * 7919 % 5000)
    reader.close()


def test_a_full_disk_is_no_room_and_changes_nothing(tmp_path: Path) -> None:
    if subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("no mount namespace may be made here")
    mounted = 'mount -t tmpfs -o size=1m tmpfs "$1" && exec "$2" -c "$3" "$1"'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", mounted, "sh", str(tmp_path), sys.executable, FULL_DISK],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.stdout.strip(), done.returncode) == ("refused and recovered", 0), done.stderr
