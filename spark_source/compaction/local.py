"""Tasks in processes on this machine: each a worker that reads tasks line by line and answers.

Threads would not do: decoding and encoding hold the interpreter's lock for a part of their time. A
worker ends when its standard input does, so none is left behind by a run that is killed.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue

from spark_source.compaction.plan import TaskResult, task_of
from spark_source.compaction.worker import carry_out

MODULE = "spark_source.compaction.worker"


class LocalCarrier:
    """At most `workers` processes, which live as long as there are tasks; one task needs none."""

    def __init__(self, url: str, storage: Mapping[str, str], workers: int | None = None) -> None:
        self._url = url
        self._storage = storage
        self._workers = workers or core_count()
        self._processes: list[subprocess.Popen[str]] = []

    @property
    def parallelism(self) -> int:
        return self._workers

    def carry_out(self, tasks: Sequence[str]) -> Iterator[str]:
        count = min(self._workers, len(tasks))
        if count <= 1:
            for text in tasks:
                yield carry_out(self._url, self._storage, text)
            return
        waiting: SimpleQueue[str] = SimpleQueue()
        done: SimpleQueue[str] = SimpleQueue()
        for text in tasks:
            waiting.put(text)
        with ThreadPoolExecutor(count, thread_name_prefix="logstore-task") as threads:
            try:
                for _ in range(count):
                    threads.submit(self._work, self._start(), waiting, done)
                for _ in tasks:
                    yield done.get()
            finally:
                self._stop()

    def close(self) -> None:
        self._stop()

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the run, which ends its workers
        )
        self._processes.append(process)
        return process

    def _work(
        self, process: subprocess.Popen[str], waiting: SimpleQueue[str], done: SimpleQueue[str]
    ) -> None:
        """One task after the other; a worker that died fails its task and the rest of its share."""
        assert process.stdin is not None
        assert process.stdout is not None
        while True:
            try:
                text = waiting.get_nowait()
            except Empty:
                return
            answer = ""
            try:
                request = {"url": self._url, "storage": dict(self._storage), "task": text}
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
                answer = process.stdout.readline()
            except (OSError, ValueError):
                pass  # it has died, or is being stopped
            done.put(answer or _died(text, process))

    def _stop(self) -> None:
        while self._processes:
            process = self._processes.pop()
            process.kill()
            process.communicate()


def core_count() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _died(text: str, process: subprocess.Popen[str]) -> str:
    return TaskResult(
        number=task_of(text).number,
        error=f"a worker process died: exit code={process.poll()}; was there too little memory? "
        "fewer workers (--workers) or smaller tasks (--task-mib) need less",
        error_kind="Retryable",
    ).text()
