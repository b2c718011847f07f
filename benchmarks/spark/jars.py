"""Jars that Spark needs beside itself: its Kafka source, and Delta; by Maven, fetched once."""

from collections.abc import Sequence
from pathlib import Path

from tests.spark_source import delta_jars, kafka_source


def session_jars() -> Sequence[Path]:
    """All of them: every job has the same, whatever it reads. Raises `SystemExit` without them."""
    for jars in (kafka_source.JARS, delta_jars.JARS):
        if reason := jars.why_not():
            raise SystemExit(reason)
    return [*kafka_source.kafka_source_jars(), *delta_jars.delta_jars()]
