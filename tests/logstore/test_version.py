"""The version that rows and log lines say is the one that is installed."""

import tomllib
from pathlib import Path

from logstore.version import VERSION

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_it_is_that_of_the_distribution() -> None:
    assert tomllib.loads(PYPROJECT.read_text())["project"]["version"] == VERSION
