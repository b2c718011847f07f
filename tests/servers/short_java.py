"""Options of the Javas that tests start, and the home of Sparks: each lives for seconds.

With a default Java a third of a Spark test's CPU goes into compiling code for the last time, with
all optimizations, shortly before the process ends.
"""

import os
from collections.abc import Mapping

from tests.servers.class_archive import options_of, spark_archive
from tests.servers.spark_home import spark_home

JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def spark_variables() -> Mapping[str, str]:
    """For the environment of the processes that start Spark: its driver and its launcher."""
    text = " ".join(JAVA_OPTIONS)
    return {
        "SPARK_SUBMIT_OPTS": " ".join((text, *options_of(spark_archive()))),
        "SPARK_LAUNCHER_OPTS": text,
        "SPARK_HOME": str(spark_home()),
    }


def set_spark_variables() -> None:
    """In this process, for those that it starts; options that it has itself come first."""
    for name, text in spark_variables().items():
        os.environ.setdefault(name, text)
