"""The list of an image's packages is what the lock pins, made by the Dockerfile's very command."""

import re
import shlex
from pathlib import Path

import pytest

from tests.images.dockerfile import line_of, read_stages
from tests.images.sbom import SBOM, listed, locked
from tests.images.test_dockerfile import EXTRAS
from tests.scenarios.harness.process import ROOT
from tests.servers.pinned_tool import INSTALL_S, cyclonedx_py
from tools import locked_extras


def command_of(target: str) -> list[str]:
    """The arguments that make the list of `target`."""
    stage = re.search(r"--from=([\w-]+)", line_of(target, "COPY"))
    assert stage is not None
    runs = " ".join(read_stages()[stage[1]].all_of("RUN"))
    found = re.search(r"/sbom/bin/cyclonedx-py ([^&]+) &&", runs)
    assert found is not None
    return shlex.split(found[1])


@pytest.mark.parametrize("target", EXTRAS)
def test_it_is_made_of_the_pins_that_are_installed(target: str) -> None:
    words = command_of(target)

    assert words[-1] == "/pins"
    assert f"/{SBOM}" in words


@pytest.mark.slow
@pytest.mark.timeout(int(INSTALL_S))
@pytest.mark.parametrize("target", EXTRAS)
def test_it_lists_each_pinned_package_with_its_hashes(
    tmp_path: Path, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if cyclonedx_py.why_not() is not None:
        pytest.skip("cyclonedx-py needs a package index, once")
    locked_extras.main(EXTRAS[target])
    pins, made = tmp_path / "pins", tmp_path / "made.json"
    pins.write_text(capsys.readouterr().out)
    places = {
        "/pins": str(pins),
        f"/{SBOM}": str(made),
        "pyproject.toml": str(ROOT / "pyproject.toml"),
    }
    done = cyclonedx_py.run(*(places.get(word, word) for word in command_of(target)))
    assert done.returncode == 0, done.stderr

    expected = locked(EXTRAS[target])
    assert len(expected) > 20
    assert all(hashes for _, hashes in expected.values())
    assert listed(made.read_text()) == expected
