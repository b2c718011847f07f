"""Runs one task in this process: text in, text out, also for a failure.

The same in a thread of `logstore compact` and in a Spark executor; all it needs is the log's URL
and how to reach it.
"""

import secrets
from collections.abc import Mapping
from dataclasses import replace

from logstore import errors
from logstore.compaction.decisions.plan import TaskResult, task_of
from logstore.compaction.gone import resolver
from logstore.compaction.task import run_task
from logstore.errors import LogstoreError, Retryable
from logstore.objects.metered import MeteredBlockingStore, StoreCounts
from logstore.reading.direct.task_rows import open_once


def carry_out(url: str, storage: Mapping[str, str], text: str) -> str:
    """The result of a task as text; a `LogstoreError` is one too."""
    task = task_of(text)
    counts = StoreCounts()
    try:
        store = MeteredBlockingStore(open_once(url, tuple(sorted(storage.items()))), counts)
        result = run_task(store, task, secrets.token_hex(4), resolver(url, storage))
    except LogstoreError as error:
        result = TaskResult(number=task.number, error=str(error), error_kind=type(error).__name__)
    return replace(result, requests=counts.requests()).text()


def error_of(result: TaskResult) -> LogstoreError:
    """Error of a task, of the class raised there, or the nearest one."""
    kind = getattr(errors, result.error_kind, Retryable)
    try:
        error = kind(result.error)
    except TypeError:  # one that has more to tell than a text
        return Retryable(result.error)
    return error if isinstance(error, LogstoreError) else Retryable(result.error)
