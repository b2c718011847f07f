"""The page of options is what its cases say, and names every option there is."""

from spark_source.options import KNOWN
from tests.spark_source.option_table import CASES
from tools.spark_options import PAGE, render


def test_the_page_is_what_the_cases_say() -> None:
    assert PAGE.read_text() == render(), "run python -m tools.spark_options"


def test_every_option_has_a_case() -> None:
    of_cases = {name for case in CASES for name in case.options}

    assert not set(KNOWN) - of_cases - {"path", "url"}
