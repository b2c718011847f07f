"""infra/terraform and the rendered chart pass checkov; each exception is beside its resource.

Terraform: `#checkov:skip=CHECK:reason` in the resource; the chart: an annotation of the object.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.infra.chart import LEAST, MUCH, render
from tests.infra.terraform import INFRA
from tests.servers.helm import INSTALL_S, why_no_helm
from tests.servers.pinned_tool import checkov

REASON_WORDS_MIN = 5
EXCEPTION = r"#checkov:skip=(\w+):|checkov\.io/skip\d+: (\w+)="
OFFLINE = {"BC_SKIP_MAPPING": "TRUE", "CHECKOV_RUN_SCA_PACKAGE_SCAN": "false"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(int(INSTALL_S))]


@pytest.fixture(autouse=True, scope="module")
def tool() -> None:
    if checkov.why_not() is not None:
        pytest.skip("checkov needs a package index, once")


def report(place: Path, framework: str) -> Mapping[str, Any]:
    words = ["--directory", str(place), "--framework", framework, "--output", "json"]
    done = checkov.run(*words, "--compact", environment=OFFLINE)
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


def judge(found: Mapping[str, Any], what: str, written: str, tell: Callable[[str], None]) -> None:
    """`written`: the text that has the exceptions."""
    results = found["results"]
    failed = [f"{one['check_id']} {one['resource']}" for one in results["failed_checks"]]
    skipped = {one["check_id"]: one["check_result"] for one in results["skipped_checks"]}
    summary = found["summary"]
    tell(
        f"checkov, {what}: {summary['passed']} passed, {summary['failed']} failed, "
        f"{summary['skipped']} explained ({len(skipped)} checks)"
    )
    assert not found["summary"]["parsing_errors"]
    assert failed == []
    assert summary["passed"] > 0
    assert {a or b for a, b in re.findall(EXCEPTION, written)} == set(skipped), (
        "an exception that nothing needs"
    )
    for check, result in skipped.items():
        assert len(result["suppress_comment"].split()) >= REASON_WORDS_MIN, check


def test_terraform_passes(tell: Callable[[str], None]) -> None:
    written = "\n".join(path.read_text() for path in sorted(INFRA.rglob("*.tf")))
    judge(report(INFRA, "terraform"), "Terraform", written, tell)


@pytest.mark.parametrize("values", [LEAST, MUCH])
def test_the_chart_passes(
    tmp_path: Path, values: Mapping[str, Any], tell: Callable[[str], None]
) -> None:
    if why_no_helm() is not None:
        pytest.skip("helm needs Go, once")
    made = tmp_path / "made"
    made.mkdir()
    text = render(tmp_path, values)
    (made / "rendered.yaml").write_text(text)
    judge(report(made, "kubernetes"), "the chart", text, tell)
