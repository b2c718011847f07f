"""Three brokers on a bucket and a table behind fault proxies, traffic, and a Prometheus over them.

Alerts have their own rules with shorter times: a window and a `for:` of minutes would make each
drill take as long. `shortened` says by how much.
"""

import re
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from confluent_kafka import Consumer, Producer

from logstore.cli.main import main
from logstore.objects.s3_options import S3Location
from tests.scenarios.harness.brokers import bootstrap_of, create_topic, start_broker
from tests.scenarios.harness.bucket import ROWS_ENDPOINT
from tests.scenarios.harness.process import Process
from tests.servers.buckets import new_location, s3_client
from tests.servers.child import free_port
from tests.servers.locked_moto import aws_environment, locked_moto
from tests.servers.prometheus import Prometheus, prometheus
from tests.servers.proxied import Proxied, proxied
from tests.servers.tables import new_table_url
from tools.monitoring.alert import Alert, rules_text

BROKERS = (1, 2, 3)
TOPIC, KEYED = "traffic", "keyed"
VALUE = b"v" * 40_000
PAUSE_S = 0.25
SETTINGS = {
    "logstore.backlog.bytes": "1048576",  # full within seconds of a store that takes nothing
    "logstore.delete.grace.ms": "60000",
    "logstore.compaction.every": "2s",
    "logstore.flush.interval.ms": "500",  # the servers share the machine with all else
    "logstore.cache.bytes": "1048576",  # so that a reader of old records reads the store
}
KEYED_CONFIGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0",
    "logstore.table.freshness.ms": "1000",
}
_DURATION = re.compile(r"(\d+)([smh])")
_WINDOW = re.compile(r"\[(\d+[smh])\]")
_SECONDS = {"s": 1, "m": 60, "h": 3600}
WINDOW_MIN_S = 5
"""Of a rate: some scrapes."""


def shortened(alert: Alert, divisor: int) -> Alert:
    """The alert with its windows, its `for:` and its age divided."""

    def shorter(match: re.Match[str]) -> str:
        return f"[{max(WINDOW_MIN_S, seconds_of(match[1]) // divisor)}s]"

    expression = _WINDOW.sub(shorter, alert.expression)
    if alert.age_s:
        expression = expression.replace(f"> {alert.age_s}", f"> {alert.age_s // divisor}")
    return replace(alert, expression=expression, lasts=f"{seconds_of(alert.lasts) // divisor}s")


def seconds_of(text: str) -> int:
    match = _DURATION.fullmatch(text)
    assert match is not None, text
    return int(match[1]) * _SECONDS[match[2]]


@dataclass(slots=True)
class StagedBroker:
    number: int
    port: int
    http: str
    process: Process | None = None


@dataclass(slots=True)
class AlertStage:
    """`store` and `rows` are the proxies that all brokers go through."""

    location: S3Location
    store: Proxied
    rows: Proxied
    directory: Path
    stack: ExitStack
    brokers: dict[int, StagedBroker] = field(default_factory=dict)
    monitor: Prometheus = field(init=False)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{one.port}" for one in self.brokers.values())

    @property
    def endpoint(self) -> str:
        """The store without its proxy."""
        return locked_moto()

    def start(self, number: int) -> None:
        one = self.brokers[number]
        settings = {**SETTINGS, "storage.endpoint": self.store.endpoint}
        one.process = start_broker(
            self.location.url,
            port=one.port,
            more=(
                *("--broker", str(number), "--http", one.http),
                *("--state-dir", str(self.directory / f"state-{number}")),
                *(word for item in settings.items() for word in ("--set", "=".join(item))),
            ),
            environment={ROWS_ENDPOINT: self.rows.endpoint},
        )
        self.stack.enter_context(one.process)
        bootstrap_of(one.process)

    def process(self, number: int) -> Process:
        process = self.brokers[number].process
        assert process is not None
        return process

    def kill(self, number: int) -> None:
        self.process(number).kill()
        self.process(number).wait()

    def keys(self, prefix: str) -> list[str]:
        """Of objects, below the log's URL."""
        pages = s3_client(self.endpoint).get_paginator("list_objects_v2")
        start = f"{self.location.prefix}/"
        return sorted(
            item["Key"].removeprefix(start)
            for page in pages.paginate(Bucket=self.location.bucket, Prefix=start + prefix)
            for item in page.get("Contents", ())
        )

    def get(self, key: str) -> bytes:
        answer = s3_client(self.endpoint).get_object(**self._place(key))
        data: bytes = answer["Body"].read()
        return data

    def put(self, key: str, data: bytes) -> None:
        s3_client(self.endpoint).put_object(Body=data, **self._place(key))

    def _place(self, key: str) -> dict[str, str]:
        return {"Bucket": self.location.bucket, "Key": f"{self.location.prefix}/{key}"}


class Traffic:
    """Produces to all partitions and consumes them in a group, whatever happens."""

    def __init__(self, bootstrap: str) -> None:
        self._stop = threading.Event()
        self._bootstrap = bootstrap
        self._threads = [threading.Thread(target=one) for one in (self._produce, self._consume)]

    def __enter__(self) -> "Traffic":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _produce(self) -> None:
        client = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "queue.buffering.max.messages": 2_000,
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        number = 0
        while not self._stop.wait(PAUSE_S):
            number += 1
            with suppress(BufferError):
                client.produce(TOPIC, VALUE, key=str(number).encode())
                client.produce(KEYED, b"v", key=str(number % 5).encode())
            client.poll(0)
        client.purge()

    def _consume(self) -> None:
        client = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": "readers", "log_level": 0}
        )
        client.subscribe([TOPIC])
        while not self._stop.is_set():
            client.poll(0.2)
        client.close()


@contextmanager
def alert_stage(directory: Path, alerts: Sequence[Alert]) -> Iterator[AlertStage]:
    """`alerts` are evaluated as they are given."""
    with ExitStack() as stack:
        enter = stack.enter_context
        enter(aws_environment())
        server = locked_moto()
        table = replace(new_table_url(server), endpoint=None)
        enter(aws_environment({ROWS_ENDPOINT: server}))
        location = new_location(server)
        arguments = ["--registry", str(table), "--set", f"storage.endpoint={server}"]
        assert main(["init", "--url", location.url, *arguments]) == 0
        stage = AlertStage(
            location, enter(proxied(server)), enter(proxied(server)), directory, stack
        )
        for number in BROKERS:
            stage.brokers[number] = StagedBroker(number, free_port(), f"127.0.0.1:{free_port()}")
            stage.start(number)
        create_topic(stage.bootstrap, TOPIC, 6, {"retention.ms": "86400000"})
        create_topic(stage.bootstrap, KEYED, 1, KEYED_CONFIGS)
        targets = [one.http for one in stage.brokers.values()]
        stage.monitor = enter(prometheus(directory, targets, rules_text(alerts)))
        enter(Traffic(stage.bootstrap))
        yield stage


def throttle(process: Process, stop: threading.Event, *, part: float) -> None:
    """Let it run for the rest of each second alone, as a CPU limit of its container does."""
    while not stop.is_set():
        process.send(signal.SIGSTOP)
        stop.wait(part)
        process.send(signal.SIGCONT)
        stop.wait(1 - part)
