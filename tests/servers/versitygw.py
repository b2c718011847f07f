"""versitygw 1.8.0, an S3 gateway over a directory: built with Go, kept outside the checkout.

It checks signatures and lets one of racing conditional writes win, so the store's contract is held
against it as well as against moto. From 1.8.0 on: earlier releases let several racers win.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.child import cache_folder, free_port, install_once, is_installed, running_child
from tests.servers.locked_moto import ENVIRONMENT

VERSION = "1.8.0"
PACKAGE = f"github.com/versity/versitygw/cmd/versitygw@v{VERSION}"
INSTALL_S = 900.0


def why_no_versitygw() -> str | None:
    """None if it can be run here, else what is missing, in one line."""
    folder = _folder()
    if is_installed(folder):
        return None
    if shutil.which("go") is None:
        return "versitygw is built with Go 1.24 or newer: install it (https://go.dev/dl)"
    try:
        install_once(folder, lambda: _install(folder))
    except (OSError, subprocess.SubprocessError) as error:
        return f"Go could not build versitygw {VERSION}: {error}"
    return None


@contextmanager
def versitygw(directory: Path) -> Iterator[str]:
    """Its endpoint, once it answers; buckets are folders below `directory`.

    They may have versions.
    """
    data, versions = directory / "buckets", directory / "versions"
    data.mkdir()
    versions.mkdir()
    port = free_port()
    command = [str(binary()), "--quiet", "--port", f"127.0.0.1:{port}"]
    keys = {
        "ROOT_ACCESS_KEY": ENVIRONMENT["AWS_ACCESS_KEY_ID"],
        "ROOT_SECRET_KEY": ENVIRONMENT["AWS_SECRET_ACCESS_KEY"],
    }
    log = directory / "versitygw.log"
    posix = ["posix", "--versioning-dir", str(versions), str(data)]
    with running_child([*command, *posix], port, log, keys):
        yield f"http://127.0.0.1:{port}"


def binary() -> Path:
    """The program, once `why_no_versitygw` is None."""
    return _folder() / "versitygw"


def _folder() -> Path:
    return cache_folder(f"versitygw-{VERSION}")


def _install(folder: Path) -> None:
    environment = {**os.environ, "GOBIN": str(folder)}
    command = ["go", "install", PACKAGE]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=INSTALL_S)
