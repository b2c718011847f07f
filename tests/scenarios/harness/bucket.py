"""A log in a bucket of versitygw and a table of DynamoDB Local, each behind a fault proxy.

Brokers go through the proxies; `logstore init` and the judge ask the servers themselves. The
registry's URL in cluster.json names no endpoint, so the environment decides which way rows go.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from logstore.cli.main import main
from logstore.registry.dynamodb_json.url import TableUrl
from tests.scenarios.harness.counts import ProxyCounts
from tests.scenarios.harness.process import Process
from tests.scenarios.harness.series import Place
from tests.servers.buckets import new_location
from tests.servers.dynamodb_local import dynamodb_local, why_no_dynamodb_local
from tests.servers.locked_moto import REGION, aws_environment
from tests.servers.versitygw import versitygw, why_no_versitygw

ROWS_ENDPOINT = "AWS_ENDPOINT_URL_DYNAMODB"
TIMEOUT_MS = 1_500
"""Of one S3 request: hangs are found soon, and an answer that takes a second is not one."""

OBJECT_FAULTS = (
    *("500 rate=0.01", "503 rate=0.01", "reset rate=0.01", "hang rate=0.01"),
    *("applied-500 rate=0.01", "applied-503 rate=0.01"),
    *("applied-reset rate=0.01", "applied-hang rate=0.01"),
    "409 rate=0.01 methods=PUT",
    *("late rate=0.005 methods=PUT seconds=2", "late rate=0.005 methods=PUT seconds=0.02"),
    "cut rate=0.01 methods=GET",
)
ROW_FAULTS = (
    *("500 rate=0.003", "503 rate=0.003", "reset rate=0.003", "hang rate=0.001"),
    *("applied-500 rate=0.003", "applied-503 rate=0.003"),
    *("applied-reset rate=0.003", "applied-hang rate=0.001"),
)


@dataclass(frozen=True, slots=True)
class Weather:
    """What the proxies do. `latency` 1 is that of S3 and DynamoDB in one region, 0 none.

    Without any of it there are no proxies, and nothing is counted.
    """

    objects: Sequence[str] = OBJECT_FAULTS
    rows: Sequence[str] = ROW_FAULTS
    latency: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Bucket:
    place: Place
    objects_proxy: str
    rows_proxy: str

    def counts(self) -> tuple[ProxyCounts, ProxyCounts]:
        """Of S3 requests and of DynamoDB requests."""
        return ProxyCounts.ask(self.objects_proxy), ProxyCounts.ask(self.rows_proxy)

    def place_by(self, objects: str, rows: str) -> Place:
        """The same log, for a broker that reaches its servers at other addresses."""
        broker = (*self.place.broker, "--set", f"storage.endpoint={objects}")
        return replace(self.place, broker=broker, environment={ROWS_ENDPOINT: rows})


def why_no_bucket() -> str | None:
    return why_no_versitygw() or why_no_dynamodb_local()


@contextmanager
def bucket(directory: Path, weather: Weather) -> Iterator[Bucket]:
    """A new log; everything that belongs to it is below `directory`.

    Raises `RuntimeError` where its servers cannot run, with what is missing.
    """
    missing = why_no_bucket()
    if missing:
        raise RuntimeError(missing)
    with (
        aws_environment(),
        versitygw(directory) as objects,
        dynamodb_local(directory) as rows,
        aws_environment({ROWS_ENDPOINT: rows}),
        _proxy(objects, weather.objects, weather) as objects_proxy,
        _proxy(rows, weather.rows, weather) as rows_proxy,
    ):
        url = new_location(objects).url
        table = str(TableUrl("kills", REGION))
        endpoint = f"storage.endpoint={objects}"
        code = main(["init", "--url", url, "--registry", table, "--set", endpoint])
        assert code == 0, f"init ended with code={code}"
        place = Place(
            url,
            broker=(
                *("--set", f"storage.endpoint={objects_proxy}"),
                *("--set", f"storage.timeout.ms={TIMEOUT_MS}"),
                *("--state-dir", str(directory / "state")),
            ),
            environment={ROWS_ENDPOINT: rows_proxy},
            judge=("--endpoint", objects),
        )
        yield Bucket(place, objects_proxy, rows_proxy)


@contextmanager
def _proxy(behind: str, rules: Sequence[str], weather: Weather) -> Iterator[str]:
    if not rules and not weather.latency:
        yield behind
        return
    arguments = ["logstore.testing.fault_proxy", "--upstream", urlsplit(behind).netloc]
    arguments += ["--latency", str(weather.latency), "--seed", str(weather.seed)]
    for rule in rules:
        arguments += ["--rule", rule]
    with Process(arguments) as proxy:
        yield f"http://{proxy.wait_for(r'^listening on (.+)$')[1]}"
