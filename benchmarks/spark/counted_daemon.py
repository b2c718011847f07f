"""PySpark's daemon, which forks workers, but it waits for those that end.

As shipped it ignores them, and the CPU time of an ignored child is added to no process:
workers that Spark ends while a query runs would take theirs with them. Named by
`spark.python.daemon.module`, which is for tasks; planning has workers of its own.
"""

import os
import signal
from contextlib import suppress
from typing import Any

from pyspark import daemon

_set_handler = signal.signal


def _wait_for_ended(*_: object) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _set(number: int, handler: Any) -> Any:
    is_ignoring = number == signal.SIGCHLD and handler == signal.SIG_IGN
    return _set_handler(number, _wait_for_ended if is_ignoring else handler)


if __name__ == "__main__":
    signal.signal = _set  # type: ignore[assignment]  # the daemon looks it up when it begins
    daemon.manager()
