"""The list of an image's packages, and what the lock says they are."""

import json
import re
import tomllib
from collections.abc import Sequence

from tests.scenarios.harness.process import ROOT
from tools.locked_extras import locked_part

SBOM = "opt/logstore/sbom.cdx.json"
"""Where an image has it."""

Packages = dict[str, tuple[str, frozenset[str]]]
"""Version and hashes, by name."""


def locked(extras: Sequence[str]) -> Packages:
    """What `requirements.lock` pins for `extras`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    part = locked_part((ROOT / "requirements.lock").read_text(), project, extras)
    found: Packages = {}
    for text in re.split(r"^(?=[\w.-]+==)", part, flags=re.MULTILINE)[1:]:
        pinned = re.match(r"([\w.-]+)==(\S+)", text)
        assert pinned is not None
        hashes = frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", text))
        found[pinned[1]] = (pinned[2], hashes)
    return found


def listed(text: str) -> Packages:
    """What a CycloneDX document lists."""
    document = json.loads(text)
    assert document["bomFormat"] == "CycloneDX"
    assert document["metadata"]["component"]["name"] == "pyspark-logstore"
    found: Packages = {}
    for one in document["components"]:
        assert one["purl"] == f"pkg:pypi/{one['name']}@{one['version']}"
        hashes = {
            digest["content"]
            for reference in one["externalReferences"]
            for digest in reference["hashes"]
            if digest["alg"] == "SHA-256"
        }
        found[one["name"]] = (one["version"], frozenset(hashes))
    return found
