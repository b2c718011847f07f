"""The page of settings is what `logstore.config` says, and what it says of their effect is true."""

import re
from functools import cache
from pathlib import Path

import pytest

from logstore.config.broker import BROKER_SETTINGS
from logstore.config.topics import BROKER_NAMES, NO_EFFECT, TOPIC_SETTINGS
from tools.settings_page import PAGE, render
from tools.tree import tree_files

ROOT = Path(__file__).parent.parent.parent
PRODUCT = ("logstore", "broker", "spark_source")
CONFIG = "logstore/config/"
TOPIC_DEFAULTS = set(BROKER_NAMES.values()) - set(TOPIC_SETTINGS)


def test_the_page_is_what_the_settings_say() -> None:
    assert PAGE.read_text() == render(), "run python -m tools.settings_page"


@pytest.fixture(scope="module")
def product() -> str:
    sources = [
        path
        for path in tree_files(ROOT)
        if path.suffix == ".py" and path.parts[0] in PRODUCT and CONFIG not in str(path)
    ]
    return "\n".join((ROOT / path).read_text() for path in sources)


@cache
def constants() -> str:
    """Names of settings that the product imports."""
    return "\n".join(path.read_text() for path in sorted((ROOT / CONFIG).glob("*.py")))


@cache
def words_of(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


@pytest.mark.parametrize("name", sorted({*TOPIC_SETTINGS, *BROKER_SETTINGS} - TOPIC_DEFAULTS))
def test_a_setting_that_nothing_reads_says_that_it_has_no_effect(name: str, product: str) -> None:
    setting = TOPIC_SETTINGS.get(name) or BROKER_SETTINGS[name]
    named = re.findall(rf'^(\w+)(?:: Final)? = "{re.escape(name)}"$', constants(), re.MULTILINE)
    is_read = f'"{name}"' in product or not words_of(product).isdisjoint(named)
    is_read = is_read or name in ("log.retention.hours", "log.retention.minutes")
    assert is_read or NO_EFFECT.strip() in setting.documentation
