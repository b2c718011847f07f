"""DynamoDB Local 3.0.0, AWS's own emulator: jars by Maven, kept outside the checkout.

It answers conditions, limits and orders as the service does, so the registry's contract is held
against it as well as against moto. It listens on every address of the machine: no option says
otherwise.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.child import free_port, running_child
from tests.servers.maven_jars import MavenJars
from tests.servers.short_java import JAVA_OPTIONS
from tools.java import why_no_java

JARS = MavenJars("dynamodb-local", "3.0.0", Path(__file__).with_suffix(".pom.xml"))
MAIN = "software.amazon.dynamodb.services.local.main.ServerRunner"


def why_no_dynamodb_local() -> str | None:
    """None if it can be run here, else what is missing, in one line."""
    return why_no_java() or JARS.why_not()


@contextmanager
def dynamodb_local(directory: Path) -> Iterator[str]:
    """Its endpoint, once it answers; tables are in its memory."""
    folder, port = JARS.folder, free_port()
    command = ["java", "-Xmx256m", *JAVA_OPTIONS, f"-Djava.library.path={folder}"]
    command += ["-cp", f"{folder}/*", MAIN]
    command += ["-port", str(port), "-sharedDb", "-inMemory", "-disableTelemetry"]
    with running_child(command, port, directory / "dynamodb-local.log"):
        yield f"http://127.0.0.1:{port}"
