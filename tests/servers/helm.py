"""helm 3.19.5, which renders charts: built with Go, kept outside the checkout."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.servers.child import cache_folder, install_once, is_installed

VERSION = "3.19.5"
PACKAGE = f"helm.sh/helm/v3/cmd/helm@v{VERSION}"
KUBERNETES = ("1", "34")
"""Whose libraries this release of helm has; what it takes a cluster to be where it asks none. Its
own build says it to the linker alike."""
INSTALL_S = 1800.0
HELM_S = 60.0


def why_no_helm() -> str | None:
    """None if it can be run here, else what is missing, in one line."""
    folder = _folder()
    if is_installed(folder):
        return None
    if shutil.which("go") is None:
        return "helm is built with Go 1.24 or newer: install it (https://go.dev/dl)"
    try:
        install_once(folder, lambda: _install(folder))
    except (OSError, subprocess.SubprocessError) as error:
        return f"Go could not build helm {VERSION}: {error}"
    return None


def run_helm(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """helm with `arguments`, whatever its code, and no settings of this user."""
    ours = {name: text for name, text in os.environ.items() if not name.startswith("HELM_")}
    return subprocess.run(
        [str(_folder() / "helm"), *arguments],
        env={**ours, "KUBECONFIG": os.devnull},
        capture_output=True,
        text=True,
        timeout=HELM_S,
        check=False,
    )


def _folder() -> Path:
    return cache_folder(f"helm-{VERSION}")


def _install(folder: Path) -> None:
    """Minutes of two cores, so at a low priority."""
    environment = {**os.environ, "GOBIN": str(folder), "GOFLAGS": "-p=1"}
    major, minor = KUBERNETES
    flags = [
        f"-X helm.sh/helm/v3/pkg/{package}.k8sVersion{part}={number}"
        for package in ("chartutil", "lint/rules")
        for part, number in (("Major", major), ("Minor", minor))
    ]
    command = ["nice", "go", "install", "-ldflags", " ".join(flags), PACKAGE]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=INSTALL_S)
