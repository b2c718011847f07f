"""Archives of classes for Javas that tests start often: classes are mapped, not parsed again.

`tests.servers.make_archives` makes them. Java maps an archive where its class path and the jars are
as they were then, and starts without it elsewhere.
"""

import importlib.metadata
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "build/class_archives"
QUIET = "-Xlog:cds=off,cds+dynamic=off,class+path=off"
"""An archive that does not fit is no fault: tests compare what programs print."""


def spark_archive() -> Path:
    return FOLDER / f"spark-{importlib.metadata.version('pyspark')}.jsa"


def options_of(archive: Path) -> tuple[str, ...]:
    """Java's options to start with `archive`; none where it has not been made."""
    return (f"-XX:SharedArchiveFile={archive}", QUIET) if archive.exists() else ()
