"""Each role of infra/terraform may make the requests that its processes make, and few others."""

import io
import json
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from logstore.cli.main import main
from logstore.compaction.compactor import Compactor
from logstore.compaction.local import LocalCarrier
from logstore.compaction.session import RunOptions
from logstore.objects.s3_options import S3Location
from logstore.ports.clock import SystemClock, blocking_sleep_s
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.registry.dynamodb.client import DynamoClient
from logstore.registry.dynamodb.table import ensure_table
from logstore.registry.dynamodb_json.url import TableUrl
from logstore.wiring.initialise import InitPorts, initialise
from tests.logstore.compaction.world import TIME_MS
from tests.servers.buckets import new_location
from tests.servers.locked_moto import aws_environment, locked_moto, observers
from tests.servers.tables import new_table_url
from tests.spark_source.log_on_disk import LogOnDisk

ROLES = Path(__file__).parents[2] / "infra" / "terraform" / "modules" / "roles" / "actions.json"
GRANTED: Mapping[str, Mapping[str, list[str]]] = json.loads(ROLES.read_text())

SELDOM_MADE = {
    "admin": {
        "dynamodb:BatchGetItem",  # logstore restore, gc
    },
    "broker": {
        "dynamodb:BatchGetItem",  # takes over many partitions
        "dynamodb:DeleteItem",  # a deleted topic
        "s3:DeleteObject",  # trimming, an hour later at least
    },
    "compactor": {
        "dynamodb:DeleteItem",  # rows of old runs
        "s3:DeleteObject",  # files that no version of a table has
    },
    "reader": set(),
}
"""Rights whose requests a flow as short as this test's may not make."""


def action_of(environment: Mapping[str, Any]) -> str:
    """The right that a request needs, as IAM names it."""
    if target := environment.get("HTTP_X_AMZ_TARGET"):
        return f"dynamodb:{target.rpartition('.')[2]}"
    _, _, key = environment["PATH_INFO"].lstrip("/").partition("/")
    query = environment.get("QUERY_STRING", "")
    match environment["REQUEST_METHOD"], bool(key):
        case "GET", False if "versioning" in query:
            return "s3:GetBucketVersioning"
        case "GET", False:
            return "s3:ListBucket"
        case "GET" | "HEAD", True:
            return "s3:GetObject"
        case "POST", False:
            return "s3:DeleteObject"
        case method, _:
            return {"PUT": "s3:PutObject", "POST": "s3:PutObject", "DELETE": "s3:DeleteObject"}[
                method
            ]


def is_for(environment: Mapping[str, Any], location: S3Location, table: TableUrl) -> bool:
    """Whether a request is for this log; threads of earlier tests may still make others."""
    if environment.get("HTTP_X_AMZ_TARGET"):
        body: io.BytesIO = environment["wsgi.input"]
        return table.table.encode() in body.getvalue()
    query = unquote(environment.get("QUERY_STRING", ""))
    return location.prefix in environment["PATH_INFO"] + query or query == "versioning"


@contextmanager
def recorded(location: S3Location, table: TableUrl) -> Iterator[set[str]]:
    """Rights that the requests for this log need that are made while the block runs."""
    actions: set[str] = set()

    def observe(environment: Mapping[str, Any]) -> None:
        if is_for(environment, location, table):
            actions.add(action_of(environment))

    observers.append(observe)
    try:
        yield actions
    finally:
        observers.remove(observe)


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_each_role_has_the_rights_that_its_processes_use_and_these_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    endpoint = locked_moto()
    location, table = new_location(endpoint), new_table_url(endpoint)
    url, storage = location.url, {"storage.endpoint": endpoint}
    options = ["--url", url, "--set", f"storage.endpoint={endpoint}"]
    around = InitPorts(SystemClock(), random.Random(1), blocking_sleep_s, "test")
    batch = encode_batch([Record(n, TIME_MS, b"key", b"value %d" % n) for n in range(10)])
    used: dict[str, set[str]] = {}
    with aws_environment():
        client = DynamoClient(table)
        ensure_table(client, random.Random(1), blocking_sleep_s)  # the module registry makes it
        with recorded(location, table) as used["admin"]:
            initialise(url, str(table), storage, around)
            assert main(["fsck", *options]) == 0
        with recorded(location, table) as used["broker"], LogOnDisk(url, storage) as log:
            log.create_topic("orders", 2)
            for _ in range(10):  # more than a checkpoint's segments
                log.append("orders", 0, batch)
        with recorded(location, table) as used["compactor"]:
            compactor = Compactor(url, storage, LocalCarrier(url, storage, 1))
            assert compactor.run(RunOptions(now=True)).errors == []
            compactor.close()
        with recorded(location, table) as used["reader"]:
            assert main(["inspect", *options]) == 0
            assert main(["inspect", "topic", "orders", *options]) == 0
    capsys.readouterr()

    for role, actions in used.items():
        granted = {action for kind in GRANTED[role].values() for action in kind}
        assert actions <= granted, role
        assert granted - actions <= SELDOM_MADE[role], role


def test_a_reader_of_a_topic_has_less_than_a_reader() -> None:
    for kind, actions in GRANTED["topic_reader"].items():
        assert set(actions) <= set(GRANTED["reader"][kind])
