"""infra/terraform on moto: applied, planned again without a change, and destroyed.

moto has no network and runs no task: this shows that requests are well-formed, that each attribute
is answered as it was given, and that all of it can be deleted.
"""

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.infra.kept_attributes import keep_attributes
from tests.infra.terraform import copy_tree, init, needs_terraform, terraform
from tests.servers.locked_moto import ENVIRONMENT, REGION, locked_moto

STEP_S = 400
"""Four times what the longest takes beside other tests."""
VARIABLES = {
    "region": REGION,
    "bucket_name": "applied-orders",
    "image": f"123456789012.dkr.ecr.{REGION}.amazonaws.com/logstore:0.1.0",
    "zones": [f"{REGION}a", f"{REGION}b"],
    "client_cidrs": ["10.0.0.0/16"],
    "admin_principals": ["arn:aws:iam::123456789012:role/platform"],
    "reader_principals": ["arn:aws:iam::123456789012:role/spark"],
}
OVERRIDE = """
provider "aws" {
  s3_use_path_style = true
}

module "log" {
  brokers                  = 3
  compaction_every_minutes = 10
  zones                    = var.zones
  metrics_cidrs            = ["10.1.0.0/16"]
  topic_readers = {
    billing = {
      topic_id   = "0123456789abcdef0123456789abcdef"
      principals = ["arn:aws:iam::123456789012:role/billing"]
    }
  }
}
"""
"""dev with what production has, and all options that moto knows: it is to be destroyed again."""

ON_INSTANCES = """
module "log" {
  compute       = "ec2"
  load_balancer = true
}
"""
MADE = {
    "fargate": ["module.compaction[0].aws_scheduler_schedule.this"],
    "ec2": [
        'module.brokers.aws_autoscaling_group.this["this"]',
        'module.brokers.aws_ecs_capacity_provider.this["this"]',
        'module.brokers.aws_lb_listener.this["this"]',
    ],
}
"""Some of what each way of running brokers makes, in the module `log`."""


def last_lines(hung: subprocess.TimeoutExpired) -> str:
    """Of its output, which is bytes even where text was asked for."""
    said: bytes = hung.stdout or b""
    return " | ".join(said.decode(errors="replace").splitlines()[-5:])


def difference(change: Mapping[str, Any]) -> Mapping[str, tuple[Any, Any]]:
    """What it would change: before and after, by attribute."""
    before, after = change["before"] or {}, change["after"] or {}
    return {
        name: (before.get(name), after.get(name))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    }


@pytest.mark.slow
@pytest.mark.timeout(4 * STEP_S)
@needs_terraform
@pytest.mark.parametrize("compute", MADE)
def test_it_is_applied_and_planned_again_without_a_change_and_destroyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tell: Callable[[str], None], compute: str
) -> None:
    """A destroy that hangs is killed and run again, as an operator does, and it is said where: one
    of many waited for moto until its time was over, and nothing showed for what.
    """
    endpoint = locked_moto()
    keep_attributes(monkeypatch)
    variables = {**ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint}
    folder = copy_tree(tmp_path) / "environments" / "dev"
    (folder / "test_override.tf").write_text(OVERRIDE)
    if compute == "ec2":
        (folder / "with_instances_override.tf").write_text(ON_INSTANCES)
    (folder / "terraform.tfvars.json").write_text(json.dumps(VARIABLES))

    def run(*words: str) -> str:
        return terraform(folder, *words, variables=variables, timeout_s=STEP_S)

    init(folder)
    run("apply", "-auto-approve", "-input=false")
    made = run("state", "list").split()
    assert {f"module.log.{address}" for address in MADE[compute]} <= set(made)
    run("plan", "-out=second", "-input=false")
    second = json.loads(run("show", "-json", "second"))
    changes = {
        change["address"]: difference(change["change"])
        for change in second["resource_changes"]
        if change["change"]["actions"] not in (["no-op"], ["read"])
    }
    assert changes == {}

    destroy = ("destroy", "-auto-approve", "-input=false")
    try:
        run(*destroy)
    except subprocess.TimeoutExpired as hung:
        tell(f"terraform destroy hung for {STEP_S} s, run again; it said last: {last_lines(hung)}")
        run(*destroy)
    assert run("state", "list") == ""
