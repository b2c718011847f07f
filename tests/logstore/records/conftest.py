"""Both twins of the codec; and kafka-python, which warns while it is imported: no failure here."""

import warnings
from collections.abc import Iterator

import pytest

from logstore.records import native

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401


TWINS = ["pure"] if native.codec is None else ["native", "pure"]


@pytest.fixture(scope="module", params=TWINS)
def twin(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every test of a module that uses it runs with C, where that is built, and with Python."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "pure":
            patch.setattr(native, "codec", None)
        yield request.param


@pytest.fixture(scope="module")
def codec() -> native.Codec:
    """The native codec itself; a module that asks for it is skipped without."""
    assert native.codec is not None
    return native.codec
