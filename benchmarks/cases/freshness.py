"""How old a record is when the table shows it: acknowledged → visible, at `compact --every`.

A producer at a steady pace, a broker, and `logstore compact --every` beside it with the topic's own
freshness at a minute. Visible is what a new snapshot of the table says. `requests` are those of the
runs, but for Delta's log.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.contenders import Contenders
from benchmarks.load import PARTITIONS, new_topic
from benchmarks.options import Options
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.server import running
from logstore.history.delta import Tables
from logstore.reading.direct.reader import LogReader
from logstore.wiring.open import open_readable

EVERY = ("1m", "10s")
SECONDS = 240.0
RECORD_BYTES, RECORDS_PER_S = 1000, 1000
LOOK_S = 0.25
CATCH_UP_S = 150.0


def contenders(options: Options) -> Contenders:
    return {f"--every {every}": partial(_run, every, SECONDS * options.scale) for every in EVERY}


def _run(every: str, seconds: float) -> Mapping[str, float]:
    with (
        tempfile.TemporaryDirectory(prefix="logstore-bench-") as folder,
        running(lambda _: start_logstore(Path(folder))) as server,
    ):
        topic = new_topic(server.bootstrap)
        sent = _Sent()
        with _compacting(str(server.directory), every) as lines:
            seen = threading.Thread(target=sent.watch, args=(str(server.directory), topic))
            seen.start()
            sent.produce(server.bootstrap, topic, seconds)
            seen.join()
    ages = sorted(sent.ages_s)
    runs = [json.loads(line) for line in lines]
    moved = [run for run in runs if run["rows"]]
    gb = len(ages) * RECORD_BYTES / 1e9
    return {
        "acknowledged to visible p50 s": ages[len(ages) // 2],
        "acknowledged to visible p99 s": ages[len(ages) * 99 // 100],
        "largest s": ages[-1],
        "files": sum(run["files"] for run in moved),
        "bytes in the table per byte produced": sum(run["bytes_out"] for run in moved) / gb / 1e9,
        "requests per GB": sum(sum(run["requests"].values()) for run in runs) / gb,
    }


class _Sent:
    """One record a time, to every partition in turn; when each was acknowledged and seen."""

    def __init__(self) -> None:
        self.ages_s: list[float] = []
        self._acked: list[dict[int, float]] = [{} for _ in range(PARTITIONS)]
        self._is_over = False

    def produce(self, bootstrap: str, topic: str, seconds: float) -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})
        value, began_s = b"x" * RECORD_BYTES, time.monotonic()
        for number in range(int(seconds * RECORDS_PER_S)):
            late_s = began_s + number / RECORDS_PER_S - time.monotonic()
            if late_s > 0:
                producer.poll(late_s)
            producer.produce(
                topic, value, partition=number % PARTITIONS, on_delivery=self._acknowledged
            )
        assert producer.flush(CATCH_UP_S) == 0, "not all was acknowledged"
        self._is_over = True

    def _acknowledged(self, error: KafkaError | None, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        assert error is None and partition is not None and offset is not None, error
        self._acked[partition][offset] = time.monotonic()

    def watch(self, url: str, topic: str) -> None:
        """Until all that was acknowledged is visible."""
        log = open_readable(url)
        topic_id = LogReader(log).topics()[topic].topic_id
        log.close()
        tables, known, ends = Tables(url, {}), None, [0] * PARTITIONS
        give_up_s = None
        while not (self._is_over and not any(self._acked)):
            time.sleep(LOOK_S)
            if self._is_over and give_up_s is None:
                give_up_s = time.monotonic() + CATCH_UP_S
            assert give_up_s is None or time.monotonic() < give_up_s, "the table stands still"
            known = tables.snapshot(topic_id, known=known)
            now_s = time.monotonic()
            for partition, end in (known.ends if known is not None else {}).items():
                for offset in range(ends[partition], end):
                    acked_s = self._acked[partition].pop(offset, now_s)
                    self.ages_s.append(now_s - acked_s)
                ends[partition] = end


@contextmanager
def _compacting(url: str, every: str) -> Iterator[list[str]]:
    """Its lines, all there once it has ended."""
    command = ("compact", "--url", url, "--every", every, "--json")
    lines: list[str] = []
    main = "from logstore.cli.main import main; raise SystemExit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", main, *command], stdout=subprocess.PIPE, text=True
    )
    try:
        yield lines
    finally:
        process.terminate()
        said, _ = process.communicate()
        lines += said.splitlines()
