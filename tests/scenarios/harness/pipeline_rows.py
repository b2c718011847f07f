"""Rows of `pipeline`: made by a seed, numbered, produced at a pace; what became of each.

A row's number is in its header `number`: 0, 1, 2, … in the order in which they were produced.
"""

import random
import threading
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, Message, Producer

from tests.scenarios.harness.digests import Digest, Headers
from tests.scenarios.harness.generated import Made, records

NUMBER = "number"
LANES = 16
WAVE_S, FLUSH_S = 0.1, 300.0
PACE_WAVES = 100
"""So many waves have one pace."""
PACES = (0.3, 1.0, 1.7)
NO_KEY = 0


@dataclass(slots=True)
class SentRows:
    """Rows that were acknowledged. Their digest has rows in lanes, by number."""

    digest: Digest = field(default_factory=Digest)
    keys: "array[int]" = field(default_factory=lambda: array("H"))
    """By number. 0: a row without a key, or with an empty one, which clients spread."""
    failed: list[str] = field(default_factory=list)
    size_bytes: int = 0
    _keys: dict[bytes, int] = field(default_factory=dict)

    def number(self, made: Made) -> int:
        """The number of the next row."""
        key = self._keys.setdefault(made.key, len(self._keys) + 1) if made.key else NO_KEY
        self.keys.append(key)
        return len(self.keys) - 1


def add_row(
    digest: Digest,
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
) -> int:
    """Add a row to the digest of its lane; its number."""
    (text,) = (content for name, content in headers if name == NUMBER)
    number = int(text or b"")
    digest.add(number % LANES, number, timestamp_ms, key, value, headers)
    return number


class RowProducer:
    """Produces `rate` rows a second on average, in a thread, until it is ended."""

    def __init__(self, bootstrap: str, topic: str, rate: float, seed: int) -> None:
        self.sent = SentRows()
        self._topic = topic
        self._rate = rate
        self._rng = random.Random(seed)
        self._made = records(seed, 1)
        self._over = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "compression.type": "lz4",
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, name="rows")

    def __enter__(self) -> "RowProducer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def count(self) -> int:
        """Acknowledged."""
        return self.sent.digest.records

    def end(self) -> None:
        """Until all is acknowledged."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        wave, pace = 0, 1.0
        while not self._over.wait(WAVE_S):
            if wave % PACE_WAVES == 0:
                pace = self._rng.choice(PACES)
            wave += 1
            for _ in range(round(self._rate * pace * WAVE_S)):
                self._produce(next(self._made))
            self._producer.poll(0)
        if self._producer.flush(FLUSH_S):
            self.sent.failed.append(f"not acknowledged in {FLUSH_S:.0f} s")

    def _produce(self, made: Made) -> None:
        number = self.sent.number(made)
        headers = (*made.headers, (NUMBER, b"%d" % number))
        self.sent.size_bytes += len(made.key or b"") + len(made.value or b"")
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    made.value,
                    made.key,
                    on_delivery=self._noted(made._replace(headers=headers)),
                    timestamp=made.timestamp_ms,
                    headers=list(headers),
                )
                return
            except BufferError:
                self._producer.poll(WAVE_S)

    def _noted(self, made: Made) -> Callable[[KafkaError | None, Message], None]:
        def noted(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.sent.failed.append(str(error))
            else:
                add_row(self.sent.digest, *made[1:])

        return noted
