"""DynamoDB Local 3.0.0, AWS's own emulator: jars by Maven, kept outside the checkout.

It answers conditions, limits and orders as the service does, so the registry's contract is held
against it as well as against moto. It listens on every address of the machine: no option says
otherwise.
"""

import fcntl
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.java import why_no_java

VERSION = "3.0.0"
POM = Path(__file__).with_suffix(".pom.xml")
MAIN = "software.amazon.dynamodb.services.local.main.ServerRunner"
INSTALL_S, READY_S, STOP_S = 300.0, 60.0, 20.0
_DONE = ".done"


def why_no_dynamodb_local() -> str | None:
    """None if it can be run here, else what is missing, in one line."""
    if reason := why_no_java():
        return reason
    if (_folder() / _DONE).exists():
        return None
    if shutil.which("mvn") is None:
        return "DynamoDB Local is fetched with Maven: install it (Debian, Ubuntu: apt-get install maven)"
    try:
        _install(_folder())
    except (OSError, subprocess.SubprocessError) as error:
        return f"Maven could not fetch DynamoDB Local {VERSION}: {error}"
    return None


@contextmanager
def dynamodb_local(directory: Path) -> Iterator[str]:
    """Its endpoint, once it answers; tables are in memory, its log in `directory`."""
    folder = _folder()
    port = _free_port()
    command = ["java", "-Xmx256m", f"-Djava.library.path={folder}", "-cp", f"{folder}/*", MAIN]
    command += ["-port", str(port), "-sharedDb", "-inMemory", "-disableTelemetry"]
    log = directory / "dynamodb-local.log"
    with log.open("wb") as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=directory)
    try:
        _wait_until_it_answers(child, port, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        child.terminate()
        try:
            child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(STOP_S)


def _folder() -> Path:
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "logstore"
    return Path(os.environ.get("LOGSTORE_CACHE", default)) / f"dynamodb-local-{VERSION}"


def _install(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes may come here together
        if (folder / _DONE).exists():
            return
        command = ["mvn", "-B", "-q", "-f", str(POM), "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
        subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_S)
        (folder / _DONE).touch()


def _wait_until_it_answers(child: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline_s = time.monotonic() + READY_S
    while not _accepts(port):
        if child.poll() is not None or time.monotonic() > deadline_s:
            raise RuntimeError(f"DynamoDB Local did not start: {log.read_text()[-2000:]}")
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
