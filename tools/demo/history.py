"""The log's history as a Delta table: moved there, its segments deleted, read by a Kafka consumer
and by DuckDB. Brokers are down when it begins; the one that serves the rewind holds no data.
"""

import contextlib
import io
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
from confluent_kafka import Consumer, Message, TopicPartition
from deltalake import DeltaTable

from logstore.cli.main import main as logstore
from logstore.history.forms.names import table_key
from logstore.reading.direct.reader import LogReader
from logstore.stores.location import ForeignLocation, parse_location
from logstore.wiring.open import open_readable
from tools.demo.check import Row
from tools.demo.delta_options import delta_options
from tools.demo.demo_log import DemoLog
from tools.demo.flights import FlightId
from tools.demo.produce import QUIET, SEQ_HEADER, TOPIC

POLL_S, SILENCE_S = 1.0, 60.0
TOGETHER = 5_000
WORST = """
    SELECT carrier, count(*) AS flights, round(avg(delay), 1) AS delay
    FROM (
        SELECT value::JSON->>'carrier' AS carrier, (value::JSON->>'dep_delay')::INT AS delay
        FROM (SELECT decode(value) AS value FROM history)
    )
    GROUP BY carrier ORDER BY delay DESC LIMIT 3
"""


class HistoryFailed(Exception): ...


@dataclass(frozen=True, slots=True)
class Moved:
    """The output of compaction, and the segments deleted after it."""

    rows: int
    files: int
    size_bytes: int
    version: int
    deleted: int


@dataclass(frozen=True, slots=True)
class Rewound:
    rows: list[Row]
    seconds: float


@dataclass(frozen=True, slots=True)
class History:
    moved: Moved
    rewound_records: int
    rewound_seconds: float
    worst: Sequence[tuple[str, int, float]]
    """Carrier, flights, average delay in minutes."""


def move(log: DemoLog) -> Moved:
    """All that is committed into the table; then segments go, since nothing reads them now."""
    done = _command("compact", *log.arguments, "--now", "--json")
    at_once = ("gc", *log.arguments, "--grace-minutes", "0", "--json")
    deleted = [sum(_command(*at_once)["deleted"].values()) for _ in ("publish", "delete")]
    table = _table(log)
    return Moved(done["rows"], done["files"], done["bytes_out"], table.version(), sum(deleted))


def rewind(bootstrap: str, ends: Mapping[int, int]) -> Rewound:
    """Every record from offset 0 to `ends`, by an ordinary consumer. Raises `HistoryFailed`."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "demo-rewind",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            **QUIET,
        }
    )
    rows: list[Row] = []
    left = {number for number, end in ends.items() if end}
    began = heard = time.perf_counter()
    try:
        consumer.assign([TopicPartition(TOPIC, number, 0) for number in sorted(left)])
        while left:
            for message in consumer.consume(TOGETHER, POLL_S):
                row = _row(message)
                rows.append(row)
                heard = time.perf_counter()
                if row.offset + 1 >= ends[row.partition]:
                    left.discard(row.partition)
            if time.perf_counter() - heard > SILENCE_S:
                raise HistoryFailed(f"no records for {SILENCE_S:.0f} s of partitions {left}")
    finally:
        consumer.close()
    return Rewound(rows, time.perf_counter() - began)


def worst_carriers(log: DemoLog) -> list[tuple[str, int, float]]:
    """Carrier, flights, average delay in minutes of the three that leave latest: SQL by DuckDB."""
    connection = duckdb.connect()
    connection.register("history", _table(log).to_pyarrow_dataset())
    return connection.sql(WORST).fetchall()


def _table(log: DemoLog) -> DeltaTable:
    readable = open_readable(log.url, log.storage)
    try:
        topic = LogReader(readable).topics()[TOPIC]
    finally:
        readable.close()
    location = parse_location(log.url)
    if isinstance(location, ForeignLocation):
        raise HistoryFailed(f"the demo reads tables in a directory or on S3: {log.url}")
    url, options = delta_options(location, log.storage)
    return DeltaTable(f"{url}/{table_key(topic.topic_id)}", storage_options=options)


def _row(message: Message) -> Row:
    error = message.error()
    value, partition, offset = message.value(), message.partition(), message.offset()
    if error is not None or value is None or partition is None or offset is None:
        raise HistoryFailed(f"the consumer got an error: {error}")
    flight = json.loads(value)
    headers = dict(message.headers() or ())
    seq = headers.get(SEQ_HEADER)
    return Row(
        partition,
        offset,
        None if seq is None else int(seq),
        FlightId(flight["time_hour"], flight["carrier"], flight["flight"]),
    )


def _command(*arguments: str) -> dict[str, Any]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = logstore(arguments)
    if code:
        raise HistoryFailed(f"logstore {arguments[0]} ended with {code}: {said.getvalue().strip()}")
    facts: dict[str, Any] = json.loads(said.getvalue())
    return facts
