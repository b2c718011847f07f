"""Delta for PySpark 4.2: jars by Maven."""

from collections.abc import Sequence
from pathlib import Path

from tests.servers.maven_jars import MavenJars

JARS = MavenJars("delta-spark", "4.4.0", Path(__file__).with_name("delta.pom.xml"))


def delta_jars() -> Sequence[Path]:
    """None where they are not there and cannot be fetched."""
    return JARS.paths()
