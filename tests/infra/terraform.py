"""Terraform in a copy of infra/terraform, its AWS provider from a folder: nothing is fetched."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INFRA = ROOT / "infra" / "terraform"
KEYS = Path("logstore/registry/dynamodb/key_spec.json")
PROVIDER = "registry.terraform.io/hashicorp/aws"
TIMEOUT_S = 900


def mirror() -> Path | None:
    """A folder with Terraform's AWS provider: TF_PLUGIN_MIRROR, else a usual place."""
    named = os.environ.get("TF_PLUGIN_MIRROR")
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    places = [
        *([Path(named)] if named else []),
        Path.home() / ".terraform.d" / "plugins",
        data / "terraform" / "plugins",
        Path("/usr/local/share/terraform/plugins"),
        Path("/usr/share/terraform/plugins"),
        *sorted(Path("/opt").glob("*")),
        *sorted(Path("/opt").glob("*/*")),
    ]
    return next((place for place in places if (place / PROVIDER).is_dir()), None)


needs_terraform = pytest.mark.skipif(
    shutil.which("terraform") is None or mirror() is None,
    reason="Terraform and a mirror of its AWS provider are not here",
)


def copy_tree(folder: Path) -> Path:
    """A copy of infra/terraform, and of the file of the registry's keys where it looks for it."""
    copied = folder / INFRA.relative_to(ROOT)
    shutil.copytree(INFRA, copied, ignore=shutil.ignore_patterns(".terraform*", "*.tfstate*"))
    (folder / KEYS).parent.mkdir(parents=True)
    shutil.copy(ROOT / KEYS, folder / KEYS)
    return copied


def terraform(
    folder: Path,
    *arguments: str,
    variables: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> str:
    """Its output, in `folder`, with `variables` as the only ones of AWS in the environment."""
    empty = folder / "empty.tfrc"
    empty.touch()
    ours = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
    ours.pop("TF_DATA_DIR", None)
    done = subprocess.run(
        ["terraform", *arguments, "-no-color"],
        cwd=folder,
        env={
            **ours,
            "TF_CLI_CONFIG_FILE": str(empty),
            "CHECKPOINT_DISABLE": "1",
            "AWS_EC2_METADATA_DISABLED": "true",
            **(variables or {}),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def init(folder: Path) -> None:
    terraform(folder, "init", "-input=false", "-backend=false", f"-plugin-dir={mirror()}")
