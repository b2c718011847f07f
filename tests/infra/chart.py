"""infra/helm/logstore, rendered by helm as `helm install` would."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.servers.helm import run_helm

CHART = Path(__file__).parents[2] / "infra" / "helm" / "logstore"
NEWEST = "1.37.0"
"""The newest Kubernetes that the chart is checked for; the oldest is in Chart.yaml."""
RELEASE, NAMESPACE = "orders", "kafka"
IMAGE = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/logstore"

LEAST: Mapping[str, Any] = {"url": "s3://example-orders/log", "image": {"repository": IMAGE}}
"""What must be given."""
MUCH: Mapping[str, Any] = {
    **LEAST,
    "image": {"repository": IMAGE, "digest": "sha256:" + "0" * 64},
    "region": "eu-west-1",
    "replicas": 5,
    "settings": {
        "num.partitions": 12,
        "logstore.cache.bytes": 1073741824,
        "log.retention.ms": -1,
        "auto.create.topics.enable": False,
        "log.cleaner.min.cleanable.ratio": 0.25,
        "storage.endpoint": "http://s3.example:7070",
    },
    "secretSettings": {"storage.profile": {"secret": "store", "key": "profile"}},
    "extraEnv": [{"name": "AWS_STS_REGIONAL_ENDPOINTS", "value": "regional"}],
    "zoneLabel": "topology.kubernetes.io/zone",
    "compaction": {
        "in": "cronjob",
        "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/c"}},
    },
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/b"}},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "networkPolicy": {"clients": [{"ipBlock": {"cidr": "10.0.0.0/16"}}]},
    "imagePullSecrets": [{"name": "pull"}],
    "podAnnotations": {"example.com/team": "data"},
    "podLabels": {"team": "data"},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "high",
}
"""What can be given."""


def render(
    folder: Path, values: Mapping[str, Any], kubernetes: str = NEWEST, chart: Path = CHART
) -> str:
    """YAML of all objects, or the error of helm as an `AssertionError`."""
    rendered = run_helm(*_template(folder, values, kubernetes, chart))
    assert rendered.returncode == 0, rendered.stderr
    return rendered.stdout


def notes(folder: Path, values: Mapping[str, Any]) -> str:
    """What `helm install` says at its end.

    helm shows it after it has asked a cluster; here a template of a copy of the chart has the text.
    """
    copied = folder / "chart"
    shutil.copytree(CHART, copied)
    (copied / "templates" / "NOTES.txt").rename(copied / "said.txt")
    template = (
        'kind: Notes\nmetadata: {name: notes}\ntext: {{ tpl (.Files.Get "said.txt") . | quote }}\n'
    )
    (copied / "templates" / "said.yaml").write_text(template)
    said: str = objects(render(folder, values, chart=copied))["Notes notes"]["text"]
    return said


def refusal(folder: Path, values: Mapping[str, Any]) -> str:
    """What helm says to values that it refuses."""
    rendered = run_helm(*_template(folder, values, NEWEST, CHART))
    assert rendered.returncode != 0, rendered.stdout
    return rendered.stderr


def objects(text: str) -> dict[str, dict[str, Any]]:
    """By kind and name: `Deployment orders-logstore`."""
    return {
        f"{one['kind']} {one['metadata']['name']}": one for one in yaml.safe_load_all(text) if one
    }


def pod_of(workload: Mapping[str, Any]) -> dict[str, Any]:
    """The template of its pods."""
    spec = workload["spec"]
    pod: dict[str, Any] = spec.get("jobTemplate", workload)["spec"]["template"]
    return pod


def environment_of(pod: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, str]:
    """Variables of its one container; `fields` has those that the pod's own fields fill."""
    (container,) = pod["spec"]["containers"]
    return {
        one["name"]: one["value"]
        if "value" in one
        else fields[one["valueFrom"]["fieldRef"]["fieldPath"]]
        for one in container["env"]
    }


def _template(folder: Path, values: Mapping[str, Any], kubernetes: str, chart: Path) -> list[str]:
    given = folder / "values.json"
    given.write_text(json.dumps(values))
    words = ["template", RELEASE, str(chart), "--namespace", NAMESPACE, "--values", str(given)]
    return [*words, "--kube-version", kubernetes]
