"""A run of compaction that kills its own process at a step: python -m … LOG STEP_NUMBER."""

import os
import signal
import sys

from logstore.compaction.compactor import Compactor
from logstore.compaction.local import LocalCarrier
from logstore.compaction.session import RunOptions

LEASE_S = 3.0  # the next run waits for it, each time


def main() -> None:
    url, number = sys.argv[1], int(sys.argv[2])
    left = [number]

    def watch(step: str) -> None:
        if left[0] == 0:
            sys.stdout.write(f"{step}\n")
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1

    carrier = LocalCarrier(url, {}, 2)
    Compactor(url, {}, carrier, lease_s=LEASE_S).run(
        RunOptions(now=True, task_bytes=1_500_000), 30, watch
    )


if __name__ == "__main__":
    main()
