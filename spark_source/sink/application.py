"""Notes that processes of one Spark application leave for each other on its driver's disk.

Spark ends a Python process that had nothing to do for a minute. The one that plans the next batch
of a slow stream knows nothing, so a note says that a broker has answered this application before:
then brokers that are away are waited for, as a running process does, and no wrong address is
suspected. It lies in the application's own folder, which Spark deletes at its end.
"""

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


class AnsweredBefore:
    """Whether a broker of one log has answered this application. A note that cannot be read or
    written is none: the next process asks again."""

    def __init__(self, folder: str | None, url: str, bootstrap: str) -> None:
        """`folder` None: every process is for itself."""
        name = hashlib.sha256(f"{url}\0{bootstrap}".encode()).hexdigest()[:32]
        self._path = None if folder is None else Path(folder, f"logstore-answered-{name}")
        self._is_known = False

    def require(self, reach: Callable[[], None]) -> None:
        """Call `reach`, which raises where no broker answers, unless one has answered before."""
        if self._is_known:
            return
        with suppress(OSError):
            self._is_known = self._path is not None and self._path.exists()
        if not self._is_known:
            reach()
            self._is_known = True
            with suppress(OSError):
                if self._path is not None:
                    self._path.touch()


def application_folder() -> str | None:
    """Returns the folder that Spark made for this application on this host; None: not in Spark."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
