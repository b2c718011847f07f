"""How a child process ended, in words for a log line. Pure."""

import signal


def exit_reason(code: int) -> str:
    """`code`: as `asyncio.subprocess.Process.returncode` has it, below 0 for a signal."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
