"""Freed memory that this process keeps for its next large buffers, where the C library is glibc.

By itself glibc gives a buffer of some megabytes back when it is freed, and the next one is faulted
in again, page by page; and it has a heap for each of several threads, each with free memory of its
own. That costs a Spark task a third of its CPU time, and a broker that copies what a sink staged a
quarter, beside 80 MB.
"""

import ctypes
from dataclasses import dataclass

MiB = 1024 * 1024
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8


@dataclass(frozen=True, slots=True)
class FreedMemory:
    """Rules for all threads of the process, from `apply` on."""

    kept_bytes: int
    """At the end of a heap; what is free beyond goes back to the system."""
    heaps: int = 1
    mapped_from_bytes: int = 32 * MiB
    """A buffer of this size or more is never kept."""

    def apply(self) -> bool:
        """Whether the C library has such rules."""
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is None:
            return False
        mallopt(_M_ARENA_MAX, self.heaps)
        mallopt(_M_TRIM_THRESHOLD, self.kept_bytes)
        mallopt(_M_MMAP_THRESHOLD, self.mapped_from_bytes)
        return True


def give_back() -> bool:
    """Give all free memory of the heap to the system: some 0.2 ms for each MiB of it.

    Returns whether the C library can.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim is not None and bool(trim(0) >= 0)
