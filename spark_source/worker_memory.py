"""How the process of a Spark task keeps its memory, set once when its first task runs.

Workers are separate Python processes; these settings affect them alone.
"""

import gc
from functools import cache

from logstore.wiring.freed_memory import FreedMemory, MiB

FREED = FreedMemory(kept_bytes=128 * MiB)


@cache
def settle() -> None:
    """Keep imports out of garbage collection, and freed memory for the next segment."""
    gc.collect()
    gc.freeze()  # Spark collects garbage after every task of a worker
    FREED.apply()
