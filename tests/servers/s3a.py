"""Hadoop's S3A for PySpark 4.2: jars by Maven.

The AWS bundle among them has 686 MB, so only what names this module fetches it.
"""

from collections.abc import Sequence
from pathlib import Path

from tests.servers.maven_jars import MavenJars
from tools.java import why_no_java

JARS = MavenJars("s3a", "3.5.0", Path(__file__).with_suffix(".pom.xml"), install_s=1800.0)


def why_no_s3a() -> str | None:
    """None if its jars are there, fetched now if need be, else what is missing, in one line."""
    return why_no_java() or JARS.why_not()


def s3a_jars() -> Sequence[Path]:
    """For `spark.jars`."""
    return JARS.paths()
