"""Tasks in threads of this process: decoding and encoding in C leave the interpreter to others.

Measured beside worker processes with two of each: threads need no start (a second for imports), and
were no slower. A task writes several partitions at a time, so even one uses more than a core.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from logstore.compaction.worker import carry_out


class LocalCarrier:
    """At most `workers` tasks at a time; each holds what it has fetched until it is written."""

    def __init__(self, url: str, storage: Mapping[str, str], workers: int | None = None) -> None:
        self._url = url
        self._storage = storage
        self._workers = workers or core_count()

    @property
    def parallelism(self) -> int:
        return self._workers

    def carry_out(self, tasks: Sequence[str]) -> Iterator[str]:
        threads = ThreadPoolExecutor(self._workers, thread_name_prefix="logstore-task")
        try:
            waiting = [threads.submit(carry_out, self._url, self._storage, text) for text in tasks]
            for done in as_completed(waiting):
                yield done.result()
        finally:
            # A stop waits for the running tasks, for some seconds.
            threads.shutdown(cancel_futures=True)

    def close(self) -> None:
        """Nothing is kept between runs."""


def core_count() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
