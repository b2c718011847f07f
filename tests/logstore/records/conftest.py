"""Both twins of the codec; and kafka-python, which warns while it is imported: no failure here."""

import warnings
from collections.abc import Iterator

import pytest

from logstore.records import native

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401


@pytest.fixture(scope="module", params=["native", "pure"])
def twin(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every test of a module that uses it runs with C and with Python."""
    if request.param == "native" and native.codec is None:
        pytest.skip("the native codec is not built here")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "pure":
            patch.setattr(native, "codec", None)
        yield request.param


@pytest.fixture(scope="module")
def codec() -> native.Codec:
    """The native codec itself."""
    if native.codec is None:
        pytest.skip("the native codec is not built here")
    return native.codec
