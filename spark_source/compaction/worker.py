"""Carries out one task where it is: text in, text out, whatever becomes of it.

The same in a thread, in a process of its own and in a Spark executor; all it needs is the log's URL
and how to reach it.
"""

import json
import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import replace

from logstore import errors
from logstore.errors import LogstoreError, Retryable
from logstore.objects.metered import MeteredBlockingStore, StoreCounts
from spark_source.compaction.gone import resolver
from spark_source.compaction.plan import TaskResult, task_of
from spark_source.compaction.task import run_task
from spark_source.rows import open_once


def carry_out(url: str, storage: Mapping[str, str], text: str) -> str:
    """The result of a task as text; a `LogstoreError` is one too."""
    task = task_of(text)
    counts = StoreCounts()
    began_s = _cpu_s()
    try:
        store = MeteredBlockingStore(open_once(url, tuple(sorted(storage.items()))), counts)
        result = run_task(store, task, secrets.token_hex(4), resolver(url, storage))
    except LogstoreError as error:
        result = TaskResult(number=task.number, error=str(error), error_kind=type(error).__name__)
    spent_s = round(_cpu_s() - began_s, 3)
    return replace(result, requests=counts.requests(), cpu_s=spent_s).text()


def error_of(result: TaskResult) -> LogstoreError:
    """What ended a task, as it was raised there, or near enough."""
    kind = getattr(errors, result.error_kind, Retryable)
    try:
        error = kind(result.error)
    except TypeError:  # one that has more to tell than a text
        return Retryable(result.error)
    return error if isinstance(error, LogstoreError) else Retryable(result.error)


def _cpu_s() -> float:
    """Of this process with all its threads: a process carries out one task at a time."""
    times = os.times()
    return times.user + times.system


def main() -> None:
    """A worker process: a JSON object a line in, a result a line out, until there is no more."""
    for line in sys.stdin:
        request = json.loads(line)
        sys.stdout.write(carry_out(request["url"], request["storage"], request["task"]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
