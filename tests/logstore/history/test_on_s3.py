"""Tables in a bucket: the same commits and conflicts, and delta-rs reaches them by our settings."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from logstore.history.delta import Tables
from logstore.history.forms import names
from logstore.history.forms.snapshot import TableCommit, TableConflict
from logstore.history.read import read_rows
from logstore.objects.s3_options import S3Location
from logstore.stores.location import parse_location
from logstore.wiring.open import open_objects
from tests.logstore.history.tables import TOPIC_ID, moved, some_rows, written
from tests.servers.buckets import new_location
from tests.servers.locked_moto import aws_environment, locked_moto
from tools.demo.delta_options import delta_options


@pytest.fixture
def storage() -> Iterator[dict[str, str]]:
    with aws_environment():
        yield {"storage.endpoint": locked_moto()}


def test_a_table_in_a_bucket(storage: dict[str, str]) -> None:
    url = new_location(locked_moto()).url
    store = open_objects(url, storage)
    tables, others = Tables(url, storage), Tables(url, storage)
    empty = tables.create(TOPIC_ID, "orders")
    files = written(store, some_rows(0, 100))
    first = tables.commit(empty, TableCommit({0: 0}, {0: 100}, files, run="r"))
    with pytest.raises(TableConflict):
        moved(others, empty, (0, 0, 100), run="other")
    assert others.snapshot(TOPIC_ID) == first

    location = parse_location(url)
    assert isinstance(location, S3Location)
    root, options = delta_options(location, storage)
    table = DeltaTable(f"{root}/{names.table_key(TOPIC_ID)}", storage_options=options)
    assert table.version() == 1
    found = pa.table(table.to_pyarrow_table())
    assert sorted(found["offset"].to_pylist()) == list(range(100))

    tables.checkpoint(TOPIC_ID)
    assert others.snapshot(TOPIC_ID) == first
    rows = read_rows(store, TOPIC_ID, first.files_for(0, 10, 20), 0, 10, 20, ["offset"])
    assert [batch.num_rows for batch in rows] == [10]
    assert tables.delete_table(TOPIC_ID) == 5
    assert others.snapshot(TOPIC_ID) is None


def test_settings_become_those_of_delta_rs() -> None:
    with aws_environment({"AWS_SESSION_TOKEN": "token"}):
        bucket = S3Location("bucket", "prefix")
        url, aws = delta_options(bucket, {"storage.region": "eu-west-1"})
        assert url == "s3://bucket/prefix"
        assert (aws["aws_region"], aws["allow_http"]) == ("eu-west-1", "false")
        assert aws["aws_virtual_hosted_style_request"] == "true"
        assert (aws["aws_session_token"], "aws_endpoint_url" in aws) == ("token", False)
        own = {"storage.endpoint": "http://127.0.0.1:9000", "storage.timeout.ms": "5000"}
        _, local = delta_options(bucket, own)
        assert (local["aws_endpoint_url"], local["timeout"]) == ("http://127.0.0.1:9000", "5000ms")
        assert (local["allow_http"], local["aws_conditional_put"]) == ("true", "etag")
        assert local["aws_virtual_hosted_style_request"] == "false"
    assert delta_options(parse_location("/a/log"), {}) == ("/a/log", {})  # type: ignore[arg-type]
