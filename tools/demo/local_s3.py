"""S3 and DynamoDB on this machine for one run: versitygw and DynamoDB Local, as the tests use them.

Buckets are folders in the demo's directory; the table is in memory and ends with its server.
What installs and starts them is in `tests/servers`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.buckets import s3_client
from tests.servers.dynamodb_local import dynamodb_local, why_no_dynamodb_local
from tests.servers.locked_moto import REGION, aws_environment
from tests.servers.versitygw import versitygw, why_no_versitygw
from tools.demo.demo_log import DemoLog

BUCKET, PREFIX, TABLE = "logstore-demo", "flights", "logstore-demo"


class ServersMissing(Exception):
    """The text says which cannot be had, and what to install."""


def fetch_servers() -> None:
    """Those that are not there yet; the first time takes minutes. Raises `ServersMissing`."""
    reasons = [reason for reason in (why_no_versitygw(), why_no_dynamodb_local()) if reason]
    if reasons:
        raise ServersMissing("; ".join(reasons))


@contextmanager
def local_s3(directory: Path) -> Iterator[DemoLog]:
    """Both servers, and a bucket without a log; credentials are in this process's environment."""
    with (
        aws_environment(),
        versitygw(directory) as endpoint,
        dynamodb_local(directory) as registry,
    ):
        s3_client(endpoint).create_bucket(Bucket=BUCKET)
        yield DemoLog(
            url=f"s3://{BUCKET}/{PREFIX}",
            storage={"storage.endpoint": endpoint},
            registry=f"dynamodb://{TABLE}?region={REGION}&endpoint={registry}",
            ends_with_demo=True,
        )
