"""Is there a Java that Spark runs on? `python -m tools.java` says in one line what to install."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

VERSION_MIN = 17


def why_no_java() -> str | None:
    """None if a Java that Spark runs on is there, else the fault and the remedy."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    wanted = (
        f"Spark needs Java {VERSION_MIN} or newer: install it (Debian, Ubuntu: apt-get install "
        f"openjdk-{VERSION_MIN}-jre-headless) or set JAVA_HOME"
    )
    if java is None:
        return f"{wanted}; no java found"
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{wanted}; {java} does not run: {error}"
    version = major_version(answer.stderr + answer.stdout)
    if version is None or version < VERSION_MIN:
        return f"{wanted}; {java} is version {version or 'unknown'}"
    return None


def major_version(text: str) -> int | None:
    """17 from `openjdk version "17.0.15" 2025-04-15`, 8 from `java version "1.8.0_391"`."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


if __name__ == "__main__":
    sys.exit(why_no_java())
