"""Apache Kafka's log cleaner as seen from outside: how far it is, its CPU, the bytes of a log.

`cleaner-offset-checkpoint` in a log directory has a line for each cleaned partition, "topic
partition offset": the first offset that the last pass has not looked at. A pass ends before the
active segment, so the base offset of that one is the end to wait for.
"""

import time
from contextlib import suppress
from pathlib import Path

import psutil

CHECKPOINT = "cleaner-offset-checkpoint"
CLEANED_S = 300.0
LOOK_S = 0.02
SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.threads": "1",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "100",
}
"""Of a broker whose cleaner begins at once."""
_THREAD = "kafka-log-clean"
"""Linux keeps 15 letters of a thread's name."""


def wait_until_cleaned(directory: Path, topic: str, offset: int) -> None:
    """Until a pass over partition 0 has ended there or above."""
    deadline_s = time.monotonic() + CLEANED_S
    while (reached := cleaned_to(directory, topic)) < offset:
        assert time.monotonic() < deadline_s, f"cleaned to {reached}, not to {offset}"
        time.sleep(LOOK_S)


def cleaned_to(directory: Path, topic: str) -> int:
    """-1: partition 0 was not cleaned yet."""
    with suppress(FileNotFoundError):
        for line in (directory / CHECKPOINT).read_text().splitlines()[2:]:
            name, partition, offset = line.rsplit(" ", 2)
            if (name, partition) == (topic, "0"):
                return int(offset)
    return -1


def log_bytes(directory: Path, topic: str) -> int:
    """Of the segments of partition 0, without those that are only waiting for their deletion."""
    return sum(path.stat().st_size for path in (directory / f"{topic}-0").glob("*.log"))


def cleaner_cpu_s(process: psutil.Process) -> float:
    """CPU of the cleaner's own thread: without what the JVM compiles and collects for it."""
    for thread in Path(f"/proc/{process.pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            if (thread / "comm").read_text().startswith(_THREAD):
                return int((thread / "schedstat").read_text().split()[0]) / 1e9
    raise RuntimeError("the cleaner has no thread")
