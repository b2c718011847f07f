"""Signals as a terminal gives them, for a process that was started in the background of a script.

A shell without job control starts what is followed by `&` with SIGINT ignored, and all children
inherit that: a test that interrupts a program would wait for it for ever.
"""

import signal


def heed_signals() -> None:
    """Heed SIGINT and SIGTERM where they are ignored; of this process, and of children from now."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
