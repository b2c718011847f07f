"""infra/terraform: formatted, valid, and planned as its own tests say, with a provider that makes
nothing. Its variables of the environment are settings."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from logstore.cli.environment import SETTINGS
from logstore.config.sources import NO_SETTINGS, variable_of

ROOT = Path(__file__).parents[2]
INFRA = ROOT / "infra" / "terraform"
KEYS = Path("logstore/registry/dynamodb/key_spec.json")
PROVIDER = "registry.terraform.io/hashicorp/aws"
TIMEOUT_S = 240


def mirror() -> Path | None:
    """A folder with Terraform's AWS provider: TF_PLUGIN_MIRROR, else a usual place."""
    named = os.environ.get("TF_PLUGIN_MIRROR")
    places = [
        *([Path(named)] if named else []),
        Path.home() / ".terraform.d" / "plugins",
        Path("/usr/local/share/terraform/plugins"),
        *sorted(Path("/opt").glob("*")),
    ]
    return next((place for place in places if (place / PROVIDER).is_dir()), None)


def terraform(folder: Path, *arguments: str) -> str:
    """Its output. Nothing outside `folder` is read or written, and no server asked."""
    empty = folder / "empty.tfrc"
    empty.touch()
    environment = {
        **os.environ,
        "TF_CLI_CONFIG_FILE": str(empty),
        "CHECKPOINT_DISABLE": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    environment.pop("TF_DATA_DIR", None)
    done = subprocess.run(
        ["terraform", *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


needs_terraform = pytest.mark.skipif(
    shutil.which("terraform") is None or mirror() is None,
    reason="Terraform and a mirror of its AWS provider are not here",
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of infra/terraform, and of the file of the registry's keys where it looks for it."""
    copied = tmp_path / INFRA.relative_to(ROOT)
    shutil.copytree(INFRA, copied, ignore=shutil.ignore_patterns(".terraform*", "*.tfstate*"))
    (tmp_path / KEYS).parent.mkdir(parents=True)
    shutil.copy(ROOT / KEYS, tmp_path / KEYS)
    return copied


@pytest.mark.slow
@pytest.mark.timeout(3 * TIMEOUT_S)
@needs_terraform
def test_what_is_planned_is_what_its_own_tests_say(tree: Path) -> None:
    terraform(tree, "fmt", "-check", "-recursive")
    production = tree / "environments" / "production"
    options = ("-input=false", "-backend=false", f"-plugin-dir={mirror()}")
    terraform(production, "init", *options)
    said = terraform(production, "test", "-no-color")

    assert re.search(r"^Success! \d+ passed, 0 failed\.$", said, re.MULTILINE), said


def test_a_process_is_given_variables_that_settings_have() -> None:
    known = {variable_of(name) for name in SETTINGS} | NO_SETTINGS
    text = "".join(path.read_text() for path in sorted(INFRA.glob("modules/*/main.tf")))
    given = set(re.findall(r"^\s*(LOGSTORE_\w+)\s*=", text, re.MULTILINE))

    assert {"LOGSTORE_URL", "LOGSTORE_BROKER", "LOGSTORE_STATE_DIR"} <= given <= known


def test_the_setting_names_of_a_broker_become_variables_as_they_do_here() -> None:
    text = (INFRA / "modules" / "brokers" / "main.tf").read_text()

    assert 'upper(replace(trimprefix(name, "logstore."), "/[.-]/", "_"))' in text


@pytest.mark.parametrize("path", sorted(INFRA.rglob("variables.tf")), ids=lambda p: p.parent.name)
def test_every_variable_says_what_it_means(path: Path) -> None:
    blocks = re.split(r"^variable ", path.read_text(), flags=re.MULTILINE)[1:]

    assert blocks
    assert [block.split()[0] for block in blocks if "description = " not in block] == []
