"""`make demo`: a broker, a Kafka client, two Spark streams, a check of every record, a picture.

    python -m tools.demo [--dir DIR] [--keep] [--flights N] [--drop-one]
                         [--local-s3 | --url URL [--registry URL] [--set storage.…=VALUE]…]
    python -m tools.demo --check DIR

This process only watches: `tools.demo.play` does it all, in a process group that is killed at the
end, so that nothing is left running, however it ends.

Exit codes: 0 every flight is there exactly once; 1 one is not, or something failed; 2 wrong usage;
130 interrupted.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn

FAILED, INTERRUPTED = 1, 130
GRACE_S = 30.0
"""How long the demo may take to end by itself when interrupted."""


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    # Its stdin ends with this process, even if this one is killed.
    play = subprocess.Popen(
        [sys.executable, "-m", "tools.demo.play", *sys.argv[1:]],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        code = play.wait()
        return code if code >= 0 else FAILED
    except KeyboardInterrupt:
        play.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            play.wait(GRACE_S)
        return INTERRUPTED
    finally:
        with suppress(ProcessLookupError):
            os.killpg(play.pid, signal.SIGKILL)
        play.wait()


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
