"""Dockerfile, .dockerignore and the rest of the repository say the same. `make image` builds it."""

import json
import re
import tomllib
from collections.abc import Mapping
from importlib.metadata import entry_points, requires
from pathlib import Path

import pytest

from logstore.cli.environment import SETTINGS
from logstore.cli.main import GROUP
from logstore.config.sources import variable_of
from tests.images.dockerfile import Stage, environment_of, line_of, read_stages
from tools.locked_extras import locked_part

ROOT = Path(__file__).parents[2]
EXTRAS = {"broker": ["broker", "s3"], "spark-job": ["broker", "s3", "spark", "delta"]}
TERRAFORM = ROOT / "infra" / "terraform" / "modules"


@pytest.fixture(scope="module")
def stages() -> Mapping[str, Stage]:
    return read_stages()


def test_what_is_copied_is_there_and_not_ignored(stages: Mapping[str, Stage]) -> None:
    copied = {
        source
        for stage in stages.values()
        for line in stage.all_of("COPY")
        if not line.startswith("--from=")
        for source in line.split()[:-1]
    }
    sent = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }

    assert {"logstore", "broker", "spark_source", "requirements.lock"} <= copied
    assert copied == sent
    assert [path for path in copied if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("target", ["broker", "spark-job"])
def test_an_image_holds_the_packages_that_its_extras_need(
    stages: Mapping[str, Stage], target: str
) -> None:
    environment = re.search(r"--from=([\w-]+)", line_of(target, "COPY"))
    assert environment is not None
    runs = " ".join(stages[environment[1]].all_of("RUN"))
    chosen = re.search(r"locked_extras\.py ([\w -]+) >", runs)
    assert chosen is not None
    assert chosen[1].split() == EXTRAS[target]
    assert "--require-hashes" in runs

    lock = (ROOT / "requirements.lock").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    part = locked_part(lock, project, EXTRAS[target])
    names = set(re.findall(r"^([\w.-]+)==", part, re.MULTILINE))
    assert {"fastcrc", "pyarrow", "obstore", "boto3", "prometheus-client"} <= names
    assert ("pyspark" in names) == (target == "spark-job")
    assert not names & {"pytest", "mypy", "moto", "deltalake"}
    for name in names:
        for line in requires(name) or ():
            if "extra ==" not in line and ";" not in line:
                needed = re.match(r"[\w.-]+", line)
                assert needed is not None
                assert re.sub(r"[-_.]+", "-", needed[0]).lower() in names, (name, line)


@pytest.mark.parametrize("target", ["broker", "spark-job"])
def test_a_process_is_pid_1_and_not_root(target: str) -> None:
    assert int(line_of(target, "USER").partition(":")[0]) > 0
    assert isinstance(json.loads(line_of(target, "CMD")), list)  # without a shell


def test_a_broker_is_served_and_asked_for_its_health_by_commands() -> None:
    commands = {entry.name for entry in entry_points(group=GROUP)}
    served: list[str] = json.loads(line_of("broker", "CMD"))
    check = re.fullmatch(r".* CMD (\[.*\])", line_of("broker", "HEALTHCHECK"))

    assert check is not None
    assert served == ["logstore", "serve"]
    assert json.loads(check[1]) == ["logstore", "health"]
    assert {"serve", "health"} <= commands
    assert line_of("broker", "STOPSIGNAL") == "SIGTERM"


def test_a_spark_job_runs_a_module_that_is_there() -> None:
    python, flag, module, *_ = json.loads(line_of("spark-job", "CMD"))

    assert (python, flag) == ("python", "-m")
    assert (ROOT / module.replace(".", "/") / "__main__.py").exists()


def test_its_environment_are_settings_and_the_ports_are_those_of_terraform(
    stages: Mapping[str, Stage],
) -> None:
    given = environment_of("broker")
    terraform = (TERRAFORM / "brokers" / "main.tf").read_text()
    ports = re.findall(r"^ +(?:kafka|http)_port += (\d+)$", terraform, re.MULTILINE)

    assert set(given) <= {variable_of(name) for name in SETTINGS}
    assert stages["broker"].all_of("EXPOSE") == [" ".join(ports)]
    assert [given[f"LOGSTORE_{name}"].rpartition(":")[2] for name in ("LISTEN", "HTTP")] == ports


def test_all_that_is_written_to_is_a_volume() -> None:
    given = environment_of("broker") | environment_of("runtime")
    volumes = json.loads(line_of("broker", "VOLUME"))

    assert {given["LOGSTORE_STATE_DIR"], given["HOME"], "/tmp"} == set(volumes)


def test_an_unknown_extra_is_one_line() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    with pytest.raises(SystemExit, match="no such extra: brokers; there are broker, delta, s3"):
        locked_part("", project, ["brokers"])
    with pytest.raises(SystemExit, match="not in the lock: fastcrc, prometheus-client"):
        locked_part("", project, ["broker"])
