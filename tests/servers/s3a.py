"""Hadoop's S3A for PySpark 4.2: jars by Maven, kept outside the checkout.

The AWS bundle among them has 686 MB, so only what names this module fetches it.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.servers.child import cache_folder, install_once, is_installed
from tools.java import why_no_java

VERSION = "3.5.0"
POM = Path(__file__).with_suffix(".pom.xml")
INSTALL_S = 1800.0


def why_no_s3a() -> str | None:
    """None if its jars are there, fetched now if need be, else what is missing, in one line."""
    if reason := why_no_java():
        return reason
    folder = _folder()
    if is_installed(folder):
        return None
    if shutil.which("mvn") is None:
        return "S3A is fetched with Maven: install that (Debian: apt-get install maven)"
    try:
        install_once(folder, lambda: _install(folder))
    except (OSError, subprocess.SubprocessError) as error:
        return f"Maven could not fetch S3A {VERSION}: {error}"
    return None


def s3a_jars() -> Sequence[Path]:
    """For `spark.jars`."""
    return sorted(_folder().glob("*.jar"))


def _folder() -> Path:
    return cache_folder(f"s3a-{VERSION}")


def _install(folder: Path) -> None:
    command = ["mvn", "-B", "-q", "-f", str(POM), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_S)
