"""DynamoDB Local 3.0.0, AWS's own emulator: jars by Maven, kept outside the checkout.

It answers conditions, limits and orders as the service does, so the registry's contract is held
against it as well as against moto. It listens on every address of the machine: no option says
otherwise.
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.child import cache_folder, free_port, install_once, is_installed, running_child
from tools.java import why_no_java

VERSION = "3.0.0"
POM = Path(__file__).with_suffix(".pom.xml")
MAIN = "software.amazon.dynamodb.services.local.main.ServerRunner"
INSTALL_S = 300.0


def why_no_dynamodb_local() -> str | None:
    """None if it can be run here, else what is missing, in one line."""
    if reason := why_no_java():
        return reason
    folder = _folder()
    if is_installed(folder):
        return None
    if shutil.which("mvn") is None:
        return "DynamoDB Local is fetched with Maven: install that (Debian: apt-get install maven)"
    try:
        install_once(folder, lambda: _install(folder))
    except (OSError, subprocess.SubprocessError) as error:
        return f"Maven could not fetch DynamoDB Local {VERSION}: {error}"
    return None


@contextmanager
def dynamodb_local(directory: Path) -> Iterator[str]:
    """Its endpoint, once it answers; tables are in its memory."""
    folder, port = _folder(), free_port()
    command = ["java", "-Xmx256m", f"-Djava.library.path={folder}", "-cp", f"{folder}/*", MAIN]
    command += ["-port", str(port), "-sharedDb", "-inMemory", "-disableTelemetry"]
    with running_child(command, port, directory / "dynamodb-local.log"):
        yield f"http://127.0.0.1:{port}"


def _folder() -> Path:
    return cache_folder(f"dynamodb-local-{VERSION}")


def _install(folder: Path) -> None:
    command = ["mvn", "-B", "-q", "-f", str(POM), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_S)
