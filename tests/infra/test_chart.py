"""The chart rendered by helm: objects that Kubernetes takes, processes that start, and values that
make no sense refused before anything is asked of a cluster."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.infra.chart import (
    CHART,
    LEAST,
    MUCH,
    NAMESPACE,
    NEWEST,
    environment_of,
    notes,
    objects,
    pod_of,
    refusal,
    render,
)
from tests.servers.helm import INSTALL_S, run_helm, why_no_helm
from tests.servers.pinned_tool import kubernetes_validate
from tests.spark_source.log_on_disk import LogOnDisk

OLDEST = "1.27.0"
VALUES = [LEAST, MUCH]
FIELDS = {"status.podIP": "10.1.2.3", "metadata.labels['topology.kubernetes.io/zone']": "zone-b"}
COMMAND_S = 60

pytestmark = [pytest.mark.slow, pytest.mark.timeout(int(INSTALL_S))]


@pytest.fixture(autouse=True, scope="module")
def helm() -> None:
    if why_no_helm() is not None:
        pytest.skip("helm needs Go, once")


def broker_pod(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    return pod_of(objects(render(folder, values))["Deployment orders-logstore"])


@pytest.mark.parametrize("kubernetes", [OLDEST, NEWEST])
@pytest.mark.parametrize("values", VALUES)
def test_kubernetes_takes_what_is_rendered(
    tmp_path: Path, values: Mapping[str, Any], kubernetes: str
) -> None:
    if kubernetes_validate.why_not() is not None:
        pytest.skip("kubernetes-validate needs a package index, once")
    made = tmp_path / "rendered.yaml"
    made.write_text(render(tmp_path, values, kubernetes))
    major_minor = kubernetes.rpartition(".")[0]
    said = kubernetes_validate.run("--strict", "--kubernetes-version", major_minor, str(made))

    assert said.returncode == 0, said.stdout + said.stderr
    lines = (said.stdout + said.stderr).splitlines()
    kinds = {name.partition(" ")[0] for name in objects(made.read_text())}
    passed = {line.partition(" resource ")[2].partition("/")[0] for line in lines}
    assert {kind.lower() for kind in kinds} - passed <= {"servicemonitor"}, "no schema of it"


def test_helm_finds_no_fault_and_an_older_kubernetes_is_refused(tmp_path: Path) -> None:
    given = tmp_path / "values.json"
    given.write_text(json.dumps(LEAST))
    linted = run_helm("lint", "--strict", str(CHART), "--values", str(given))
    assert linted.returncode == 0, linted.stdout

    with pytest.raises(AssertionError, match=r"incompatible with Kubernetes v1\.26\.0"):
        render(tmp_path, LEAST, "1.26.0")


@pytest.mark.parametrize("values", VALUES)
def test_a_broker_accepts_its_command_and_each_of_its_variables(
    tmp_path: Path, values: Mapping[str, Any]
) -> None:
    pod = broker_pod(values, tmp_path)
    (container,) = pod["spec"]["containers"]
    environment = environment_of(pod, FIELDS)
    for variable, path in list(environment.items()):
        if variable.endswith("_FILE"):  # as the projected volume has it
            held = tmp_path / Path(path).name
            held.write_text("main\n")
            environment[variable] = str(held)
    given = {name: value for name, value in environment.items() if name.startswith("LOGSTORE_")}
    printed = json.loads(_run([*container["command"], "--print-config", "json"], environment))

    by_origin = {one["origin"]: one["value"] for one in printed["settings"]}
    assert given.keys() <= by_origin.keys()
    shown = {name: str(by_origin[name]).lower() for name in given if not name.endswith("_FILE")}
    assert shown == {name: text.lower() for name, text in given.items() if name in shown}


def test_compaction_is_a_command_that_runs_with_its_variables(
    tmp_path: Path,
) -> None:
    made = objects(render(tmp_path, MUCH))["CronJob orders-logstore-compaction"]
    pod = pod_of(made)
    (container,) = pod["spec"]["containers"]
    environment = environment_of(pod, FIELDS)
    del environment["LOGSTORE_STORAGE_ENDPOINT"]  # a directory has none
    with LogOnDisk(tmp_path / "log") as log:
        log.create_topic("flights", 1)
    environment["LOGSTORE_URL"] = str(tmp_path / "log")
    _run(container["command"], environment)

    assert made["spec"]["concurrencyPolicy"] == "Forbid"
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["serviceAccountName"] == "orders-logstore-compaction"
    assert "LOGSTORE_BROKER" not in environment


def _run(command: list[str], environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        [str(Path(sys.executable).with_name(command[0])), *command[1:]],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("values", VALUES)
def test_no_readiness_and_no_restart_closes_a_brokers_port(
    tmp_path: Path, values: Mapping[str, Any]
) -> None:
    made = objects(render(tmp_path, values))
    service, workload = made["Service orders-logstore"], made["Deployment orders-logstore"]
    pod = pod_of(workload)
    (container,) = pod["spec"]["containers"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}

    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert (
        {one["targetPort"] for one in service["spec"]["ports"]} == set(ports) == {"kafka", "http"}
    )
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    for probe in ("livenessProbe", "startupProbe"):
        assert container[probe]["httpGet"]["path"] == "/healthz"
    assert "preStop" not in container.get("lifecycle", {})
    assert pod["spec"]["terminationGracePeriodSeconds"] == 60
    strategy = workload["spec"]["strategy"]["rollingUpdate"]
    assert strategy == {"maxSurge": 0, "maxUnavailable": 1}, "a successor takes the free number"
    assert made["PodDisruptionBudget orders-logstore"]["spec"]["maxUnavailable"] == 1


@pytest.mark.parametrize("values", VALUES)
def test_selectors_choose_the_brokers_and_nothing_else(
    tmp_path: Path, values: Mapping[str, Any]
) -> None:
    made = objects(render(tmp_path, values))
    workload = made.pop("Deployment orders-logstore")
    chosen = workload["spec"]["selector"]["matchLabels"]
    labels = pod_of(workload)["metadata"]["labels"]
    others = [
        pod_of(one)["metadata"]["labels"] for one in made.values() if one["kind"] == "CronJob"
    ]

    assert chosen.items() <= labels.items()
    assert all(not chosen.items() <= other.items() for other in others)
    assert made["Service orders-logstore"]["spec"]["selector"] == chosen
    budget, policy = (
        made["PodDisruptionBudget orders-logstore"],
        made["NetworkPolicy orders-logstore"],
    )
    assert budget["spec"]["selector"]["matchLabels"] == chosen
    assert policy["spec"]["podSelector"]["matchLabels"] == chosen
    for spread in pod_of(workload)["spec"]["topologySpreadConstraints"]:
        assert spread["labelSelector"]["matchLabels"] == chosen


@pytest.mark.parametrize("values", VALUES)
def test_processes_have_no_root_no_rights_and_no_token(
    tmp_path: Path, values: Mapping[str, Any]
) -> None:
    for one in objects(render(tmp_path, values)).values():
        assert one["metadata"]["namespace"] == NAMESPACE
        if one["kind"] not in ("Deployment", "CronJob"):
            continue
        spec = pod_of(one)["spec"]
        (container,) = spec["containers"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["automountServiceAccountToken"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        written = {
            mount["mountPath"] for mount in container["volumeMounts"] if "readOnly" not in mount
        }
        assert written == {"/state", "/tmp"}


def test_numbers_of_values_are_numbers_of_settings(tmp_path: Path) -> None:
    environment = environment_of(broker_pod(MUCH, tmp_path), FIELDS)

    assert environment["LOGSTORE_CACHE_BYTES"] == "1073741824"
    assert environment["LOGSTORE_LOG_RETENTION_MS"] == "-1"
    assert environment["LOGSTORE_LOG_CLEANER_MIN_CLEANABLE_RATIO"] == "0.25"
    assert environment["LOGSTORE_AUTO_CREATE_TOPICS_ENABLE"] == "false"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"url": ""}, "/url"),
        ({"url": "/data/log"}, "/url"),
        ({"image": {"repository": ""}}, "/image/repository"),
        ({"image": {"repository": "logstore", "digest": "sha256:12"}}, "/image/digest"),
        ({"replica": 3}, "'replica'"),
        ({"replicas": "3"}, "/replicas"),
        ({"replicas": -1}, "/replicas"),
        ({"settings": {"num.partitons": 3}}, "num.partitons"),
        ({"settings": {"num": {"partitions": 3}}}, "num"),
        ({"settings": {"listen": "0.0.0.0:9092"}}, "listen"),
        ({"settings": {"logstore.compaction.every": "1m"}}, "logstore.compaction.every"),
        ({"secretSettings": {"storage.profile": "x"}}, "/secretSettings/storage.profile"),
        ({"extraEnv": [{"name": "LOGSTORE_URL", "value": "s3://other"}]}, "/extraEnv/0/name"),
        ({"compaction": {"in": "cron"}}, "/compaction/in"),
        ({"compaction": {"every": "often"}}, "/compaction/every"),
        ({"compaction": {"in": "cronjob", "schedule": "every minute"}}, "/compaction/schedule"),
        ({"compaction": {"shedule": "* * * * *"}}, "shedule"),
        ({"serviceAccount": {"annotation": {}}}, "annotation"),
        ({"networkPolicy": {"clients": [{"cidr": "10.0.0.0/8"}]}}, "/networkPolicy/clients/0"),
        ({"networkPolicy": {"clients": [{}]}}, "/networkPolicy/clients/0"),
        ({"resources": {"limit": {}}}, "limit"),
        ({"logFormat": "yaml"}, "/logFormat"),
    ],
)
def test_values_that_make_no_sense_are_refused_by_name(
    tmp_path: Path, change: Mapping[str, Any], said: str
) -> None:
    assert said in refusal(tmp_path, {**LEAST, **change})


def test_notes_say_where_clients_connect_and_how_the_log_is_made(tmp_path: Path) -> None:
    noted = notes(tmp_path, {**LEAST, "networkPolicy": {"enabled": False}})

    assert "orders-logstore.kafka.svc:9092" in noted
    assert "logstore init --url s3://example-orders/log --registry dynamodb://TABLE" in noted
    assert "there is no TLS and no login" in noted
