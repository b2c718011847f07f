"""The key specification of the registry's DynamoDB table: what `logstore init` makes and checks.

It is read from key_spec.json beside this file, so that other tools (Terraform's `jsondecode`) make
the very same table.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class KeySpec:
    """Names and DynamoDB types of the two keys, and how capacity is paid for."""

    hash_name: str
    hash_type: str
    range_name: str
    range_type: str
    billing_mode: str

    def creation(self) -> dict[str, Any]:
        """What CreateTable takes, without the table's name."""
        return {
            "AttributeDefinitions": [
                {"AttributeName": self.hash_name, "AttributeType": self.hash_type},
                {"AttributeName": self.range_name, "AttributeType": self.range_type},
            ],
            "KeySchema": [
                {"AttributeName": self.hash_name, "KeyType": "HASH"},
                {"AttributeName": self.range_name, "KeyType": "RANGE"},
            ],
            "BillingMode": self.billing_mode,
        }

    def difference(self, described: Mapping[str, Any]) -> str | None:
        """How the keys of a table, as DescribeTable shows it, differ from these; None: not."""
        types = {
            each["AttributeName"]: each["AttributeType"]
            for each in described.get("AttributeDefinitions", ())
        }
        found = {
            each["KeyType"]: (each["AttributeName"], types.get(each["AttributeName"]))
            for each in described.get("KeySchema", ())
        }
        wanted = {
            "HASH": (self.hash_name, self.hash_type),
            "RANGE": (self.range_name, self.range_type),
        }
        return None if found == wanted else f"found={_text(found)} wanted={_text(wanted)}"


def key_spec() -> KeySpec:
    text = files("logstore.registry.dynamodb").joinpath("key_spec.json").read_text("utf-8")
    fields = json.loads(text)
    return KeySpec(
        fields["hash_key"]["name"],
        fields["hash_key"]["type"],
        fields["range_key"]["name"],
        fields["range_key"]["type"],
        fields["billing_mode"],
    )


def _text(keys: Mapping[str, tuple[str, str | None]]) -> str:
    return ",".join(f"{name}:{kind}" for name, kind in keys.values()) or "none"
