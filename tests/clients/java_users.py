"""Apache Kafka's own tools, Kafka Connect and Kafka Streams, unchanged; jars by Maven, cached."""

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.kafka import VERSION, fetch_jars
from tests.servers.child import cache_folder, install_once, is_installed
from tests.servers.class_archive import FOLDER, options_of
from tests.servers.short_java import JAVA_OPTIONS
from tools.java import why_no_java

POM = Path(__file__).with_suffix(".pom.xml")
TOOLS = "org.apache.kafka.tools"
INSTALL_S = 300.0
TALKATIVE = "-Dorg.apache.logging.log4j.level=INFO"
"""Of a program whose output is kept: what a report of a failure needs."""
TOOL_S = 90.0


def why_no_tools() -> str | None:
    """None if Kafka's command line tools can be run here, else what is missing."""
    if reason := why_no_java():
        return reason
    try:
        fetch_jars()
    except (OSError, subprocess.SubprocessError) as error:
        return f"Maven could not fetch Apache Kafka {VERSION}: {error}"
    return None


def why_no_users() -> str | None:
    """The same of Connect and Streams."""
    if reason := why_no_java():
        return reason
    if is_installed(_folder()):
        return None
    if shutil.which("mvn") is None:
        return "Kafka Connect and Streams are fetched with Maven"
    try:
        install_once(_folder(), _install)
    except (OSError, subprocess.SubprocessError) as error:
        return f"Maven could not fetch Kafka Connect and Streams {VERSION}: {error}"
    return None


def kafka_archive() -> Path:
    """Of classes, for the command line tools."""
    return FOLDER / f"kafka-{VERSION}.jsa"


def java_with(*options: str) -> list[str]:
    return ["java", "-Xmx256m", *JAVA_OPTIONS, *options]


def tool_command(name: str, *arguments: str) -> list[str]:
    """`name`: a class of Kafka's tools, or one with its package."""
    main = name if name.startswith("kafka.") else f"{TOOLS}.{name}"
    return [*java_with(*options_of(kafka_archive())), "-cp", f"{fetch_jars()}/*", main, *arguments]


def run_tool(name: str, *arguments: str, said: str = "", code: int = 0) -> str:
    """What the tool wrote to stdout; `said` goes to its stdin. Fails with all that it wrote."""
    command = tool_command(name, *arguments)
    ran = subprocess.run(
        command, input=said, capture_output=True, text=True, timeout=TOOL_S, check=False
    )
    assert ran.returncode == code, (
        f"code={ran.returncode} {ran.stdout[-2000:]} {ran.stderr[-2000:]}"
    )
    return ran.stdout


def user_command(main: str, *arguments: str) -> Sequence[str]:
    """A Connect worker or a Streams program; the tools' jars only bring the logging."""
    jars = [f"{_folder()}/*", *(str(path) for path in sorted(fetch_jars().glob("log4j-*.jar")))]
    return [*java_with(), "-cp", ":".join(jars), main, *arguments]


def changelog_command(program: str, *arguments: str) -> Sequence[str]:
    """A program of `ChangelogUsers.java`."""
    jars = f"{_folder()}/*"
    folder = _compiled(Path(__file__).with_name("ChangelogUsers.java"), jars, "changelog-users")
    path = ":".join([str(folder), jars, *map(str, sorted(fetch_jars().glob("log4j-*.jar")))])
    return [*java_with(TALKATIVE), "-cp", path, "ChangelogUsers", program, *arguments]


def judge_command() -> Sequence[str]:
    """`payloads/PayloadJudge.java`, which reads batches as Kafka's broker and consumer do."""
    jars = f"{fetch_jars()}/*"
    source = Path(__file__).parent / "payloads" / "PayloadJudge.java"
    folder = _compiled(source, jars, "payload-judge")
    return [*java_with(), "-cp", f"{folder}:{jars}", "PayloadJudge"]


def _compiled(source: Path, jars: str, name: str) -> Path:
    """The folder of its classes, compiled once for each version of the source."""
    version = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    folder = cache_folder(f"{name}-{VERSION}-{version}")

    def compile_it() -> None:
        command = ["javac", "-cp", jars, "-d", str(folder), str(source)]
        subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_S)

    install_once(folder, compile_it)
    return folder


def _folder() -> Path:
    return cache_folder(f"kafka-users-{VERSION}")


def _install() -> None:
    command = ["mvn", "-B", "-q", "-f", str(POM), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={_folder()}"]
    subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_S)
