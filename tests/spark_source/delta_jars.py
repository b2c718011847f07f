"""Delta for PySpark 4.2: jars by Maven, kept outside the checkout."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.servers.child import cache_folder, install_once, is_installed

VERSION = "4.4.0"
POM = Path(__file__).with_name("delta.pom.xml")
INSTALL_S = 300.0


def delta_jars() -> Sequence[Path]:
    """None where they are not there and cannot be fetched."""
    folder = cache_folder(f"delta-spark-{VERSION}")
    if not is_installed(folder) and shutil.which("mvn") is not None:
        try:
            install_once(folder, lambda: _install(folder))
        except (OSError, subprocess.SubprocessError):
            return ()
    return sorted(folder.glob("*.jar")) if is_installed(folder) else ()


def _install(folder: Path) -> None:
    command = ["mvn", "-B", "-q", "-f", str(POM), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_S)
