"""How the process of a Spark task keeps its memory, set once when its first task runs.

Workers are separate Python processes; these settings affect them alone.
"""

import ctypes
import gc
from functools import cache

MiB = 1024 * 1024
ARENAS, KEPT_BYTES, MAPPED_FROM_BYTES = 1, 128 * MiB, 32 * MiB
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8


@cache
def settle() -> None:
    """Keep imports out of garbage collection, and freed memory for the next segment."""
    gc.collect()
    gc.freeze()  # Spark collects garbage after every task of a worker
    _keep_freed_memory()


def _keep_freed_memory() -> None:
    """Where the C library is glibc. It gives each segment's memory back when it is freed, and has
    it faulted in again for the next: a third of a task's CPU time, measured at 1 KB records.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, ARENAS)
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, MAPPED_FROM_BYTES)
