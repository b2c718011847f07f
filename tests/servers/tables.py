"""A DynamoDB table of its own for each test, on whatever server answers at an endpoint."""

import random
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from logstore.ports.clock import blocking_sleep_s
from logstore.registry.dynamodb.client import READ_TIMEOUT_S, DynamoClient
from logstore.registry.dynamodb.table import ensure_table
from logstore.registry.dynamodb_json.url import TableUrl
from tests.servers.locked_moto import REGION, aws_environment


def new_table_url(endpoint: str) -> TableUrl:
    """A name that no other test has."""
    return TableUrl(f"table-{uuid.uuid4().hex}", REGION, endpoint)


@contextmanager
def dynamo_client(
    endpoint: str, *, read_timeout_s: float = READ_TIMEOUT_S
) -> Iterator[DynamoClient]:
    """A client of a new, empty table. Its taker closes it; twice does no harm."""
    with aws_environment():
        client = DynamoClient(new_table_url(endpoint), read_timeout_s=read_timeout_s)
        try:
            ensure_table(client, random.Random(1), blocking_sleep_s)
            yield client
        finally:
            client.close()
