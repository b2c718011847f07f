"""Ends this process when its parent ends: the parent holds the other end of its stdin.

A pipe is closed by the kernel however its holder dies, also by SIGKILL, on every system. The parent
writes nothing into it.
"""

import os
import signal
import threading

GRACE_S = 5.0
"""From SIGTERM on: enough for a lease to be given back."""
KILLED = 137


def end_with_stdin() -> None:
    """From now on the end of stdin is a SIGTERM, and a little later the end of the process."""
    threading.Thread(target=_wait_and_end, name="logstore-lifeline", daemon=True).start()


def _wait_and_end() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(GRACE_S)
    os._exit(KILLED)
