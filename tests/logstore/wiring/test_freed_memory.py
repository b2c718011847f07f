"""Rules for freed memory: taken where the C library is glibc, and large buffers come and go."""

import platform
import subprocess
import sys

from logstore.wiring.freed_memory import FreedMemory, MiB, give_back

PROGRAM = """
import resource, sys
from logstore.wiring.freed_memory import FreedMemory, MiB
if sys.argv[1] == "kept":
    assert FreedMemory(kept_bytes=64 * MiB).apply()
def pages() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(2):
    buffers = [b"x" * (8 * MiB) for _ in range(4)]
    del buffers
before = pages()
for _ in range(10):
    buffers = [b"x" * (8 * MiB) for _ in range(4)]
    del buffers
print(pages() - before)
"""
PAGES = 10 * 32 * 256
"""Of what is written after the first rounds, at 4 KiB."""


def _faults(how: str) -> int:
    command = [sys.executable, "-c", PROGRAM, how]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_freed_buffers_are_used_again_without_faults() -> None:
    if platform.libc_ver()[0] == "glibc":
        assert _faults("kept") < PAGES / 100 < _faults("given back")
    else:
        assert not FreedMemory(kept_bytes=64 * MiB).apply()


def test_giving_back_says_whether_the_c_library_can() -> None:
    assert give_back() == (sys.platform == "linux" and platform.libc_ver()[0] == "glibc")
