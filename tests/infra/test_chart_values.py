"""Values, schema and templates of the chart agree with each other and with the product."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from logstore.config.sources import variable_of
from logstore.version import VERSION
from tests.images.dockerfile import environment_of, line_of
from tests.infra.chart import CHART, LEAST, MUCH
from tests.infra.terraform import INFRA
from tools.chart_schema import OWN_VALUES, SCHEMA, render

TEMPLATES = "\n".join(path.read_text() for path in sorted((CHART / "templates").iterdir()))
FREE = {"resources", "affinity", "texts", "setting", "peers"}
"""Definitions of the schema whose values have names of Kubernetes' or of users."""


def test_the_schema_names_the_settings_of_brokers() -> None:
    assert SCHEMA.read_text() == render(), "run python -m tools.chart_schema"


def test_the_chart_is_of_this_version() -> None:
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == VERSION


def names(values: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for name, value in values.items():
        yield f"{above}{name}"
        if isinstance(value, Mapping) and name != "resources":
            yield from names(value, f"{above}{name}.")


def schema_names(schema: Mapping[str, Any], whole: Mapping[str, Any], above: str) -> Iterator[str]:
    for name, one in schema.get("properties", {}).items():
        yield f"{above}{name}"
        definition = one.get("$ref", "").rpartition("/")[2]
        inner = whole["definitions"][definition] if definition else one
        if definition not in FREE and name not in FREE:
            yield from schema_names(inner, whole, f"{above}{name}.")


def test_values_schema_and_templates_have_the_same_names() -> None:
    given = names(yaml.safe_load((CHART / "values.yaml").read_text()))
    values = {name for name in given if not name.startswith("settings.")}  # by their own list
    schema = json.loads(SCHEMA.read_text())
    used = set(re.findall(r"\.Values\.([\w.]+)", TEMPLATES))

    assert set(schema_names(schema, schema, "")) - {"global"} == values
    assert used <= values
    leaves = {name for name in values if not any(one.startswith(f"{name}.") for one in values)}
    assert leaves - used == set(), "read by no template"


def test_every_level_of_the_schema_refuses_other_names() -> None:
    def open_levels(schema: Any, path: str) -> Iterator[str]:
        if isinstance(schema, dict):
            if "properties" in schema and schema.get("additionalProperties") is not False:
                yield path
            for name, one in schema.items():
                yield from open_levels(one, f"{path}/{name}")

    assert list(open_levels(json.loads(SCHEMA.read_text()), "")) == []


def test_variables_of_the_templates_are_settings_and_its_ports_are_the_images() -> None:
    given = set(re.findall(r"^ *- name: (LOGSTORE_\w+)", TEMPLATES, re.MULTILINE))
    image = environment_of("broker")

    assert given == {variable_of(name) for name in OWN_VALUES}
    for name in ("LISTEN", "HTTP", "STATE_DIR"):
        variable = f"LOGSTORE_{name}"
        assert re.search(rf"{variable}\n +value: {image[variable]}\n", TEMPLATES), variable
    user = re.search(r"runAsUser: (\d+)", TEMPLATES)
    assert user is not None
    assert line_of("broker", "USER").startswith(f"{user[1]}:")


def test_a_name_of_a_setting_becomes_a_variable_as_in_terraform() -> None:
    assert 'trimPrefix "logstore." | replace "." "_" | replace "-" "_" | upper' in TEMPLATES
    assert "trimprefix(name" in (INFRA / "modules" / "brokers" / "main.tf").read_text()


@pytest.mark.parametrize("values", [LEAST, MUCH])
def test_what_other_tests_give_are_names_of_the_chart(values: Mapping[str, Any]) -> None:
    known = yaml.safe_load((CHART / "values.yaml").read_text())

    assert values.keys() <= known.keys()
