"""Spark's own Kafka source for PySpark 4.2: jars by Maven."""

from collections.abc import Sequence
from pathlib import Path

from tests.servers.maven_jars import MavenJars

JARS = MavenJars("spark-sql-kafka", "4.2.0", Path(__file__).with_suffix(".pom.xml"))


def kafka_source_jars() -> Sequence[Path]:
    """None where they are not there and cannot be fetched."""
    return JARS.paths()
