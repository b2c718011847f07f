"""infra/terraform: formatted, valid, and planned as its own tests say, with a provider that makes
nothing. Its variables of the environment are settings."""

import re
from pathlib import Path

import pytest

from logstore.cli.environment import SETTINGS
from logstore.config.sources import NO_SETTINGS, variable_of
from tests.infra.terraform import INFRA, TIMEOUT_S, copy_tree, init, needs_terraform, terraform


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return copy_tree(tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3 * TIMEOUT_S)
@needs_terraform
def test_what_is_planned_is_what_its_own_tests_say(tree: Path) -> None:
    terraform(tree, "fmt", "-check", "-recursive")
    production = tree / "environments" / "production"
    init(production)
    said = terraform(production, "test")

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
