"""One Spark session for all tests of the source: it takes seconds to start."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.servers.locked_moto import aws_environment
from tests.spark_source.session import make_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with aws_environment():  # executors have it from the process that starts them
        session = make_session()
    yield session
    session.stop()
