"""Kafka clients in Go and for Node: franz-go, Sarama, kafka-go and KafkaJS, as their locks name
them.

Built and installed once, outside the checkout, from the Go module proxy and the npm registry.
"""

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.servers.child import cache_folder, install_once

FOLDER = Path(__file__).parent
CODECS = {
    "franz": ("none", "gzip", "snappy", "lz4", "zstd"),
    "sarama": ("none", "gzip", "snappy", "lz4", "zstd"),
    "segmentio": ("none", "gzip", "snappy", "lz4", "zstd"),
    "kafkajs": ("none", "gzip"),
}
"""By client; what KafkaJS has without another package."""

INSTALL_S = 600.0


def why_not(client: str) -> str | None:
    """None if this client can be run here, else what is missing."""
    tool, install = ("npm", _install) if client == "kafkajs" else ("go", _build)
    if shutil.which(tool) is None:
        return f"{client} is fetched with {tool}, which is not here"
    try:
        install_once(_folder(client), install)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", b"") or b""
        return f"{client} could not be fetched: {error} {said.decode(errors='replace')[-500:]}"
    return None


def program_of(client: str) -> Sequence[str]:
    """What an act and its arguments follow."""
    if client == "kafkajs":
        return ["node", str(_folder(client) / "clients.js")]
    return [str(_folder(client) / "clients"), client]


def _folder(client: str) -> Path:
    """Of this version of the program and of its locks."""
    source = FOLDER / ("node" if client == "kafkajs" else "go")
    found = hashlib.sha256()
    for path in sorted(path for path in source.iterdir() if path.is_file()):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return cache_folder(f"clients-{source.name}-{found.hexdigest()[:16]}")


def _build() -> None:
    command = ["go", "build", "-mod=readonly", "-trimpath", "-o", str(_folder("franz") / "clients")]
    _run([*command, "."], FOLDER / "go")


def _install() -> None:
    folder = _folder("kafkajs")
    for name in ("package.json", "package-lock.json", "clients.js"):
        shutil.copy(FOLDER / "node" / name, folder)
    _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)


def _run(command: Sequence[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=INSTALL_S)
