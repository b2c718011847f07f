"""Makes and checks the table that holds a registry: `logstore init`.

Its keys are in key_spec.json beside this file, so that other tools (Terraform's `jsondecode`) make
the very same table.
"""

import json
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Any

from logstore.errors import OutcomeUnknown, Refused, Retryable
from logstore.registry.dynamodb.client import DynamoClient
from logstore.registry.dynamodb_json.errors import NoTable
from logstore.retry import RetryDelays, pause_s, retry

ATTEMPTS_MAX = 40  # a new table takes some seconds on AWS
_FIRST_S = 0.1
_DELAYS = RetryDelays(_FIRST_S, attempts_max=4)  # a person waits for it


@dataclass(frozen=True, slots=True)
class KeySpec:
    """Names and DynamoDB types of the two keys, and how capacity is paid for."""

    hash_name: str
    hash_type: str
    range_name: str
    range_type: str
    billing_mode: str

    def creation(self) -> dict[str, Any]:
        """The arguments of CreateTable, without the table's name."""
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
        schema = {
            each["KeyType"]: (each["AttributeName"], types.get(each["AttributeName"]))
            for each in described.get("KeySchema", ())
        }
        wanted = {
            "HASH": (self.hash_name, self.hash_type),
            "RANGE": (self.range_name, self.range_type),
        }
        return None if schema == wanted else f"found={_text(schema)} wanted={_text(wanted)}"


def ensure_table(
    client: DynamoClient, rng: random.Random, sleep_s: Callable[[float], None]
) -> bool:
    """Leaves a table that can be used; whether this call made it.

    Raises `Refused` when there is one with other keys, or it does not become usable.
    """
    described = _described(client, rng, sleep_s)
    created = described is None
    if created:
        # Another makes it, or the answer was lost: the wait below finds out.
        with suppress(Retryable, OutcomeUnknown):
            client.call("create_table", writes=True, **key_spec().creation())
    for attempt in range(1, ATTEMPTS_MAX + 1):
        described = _described(client, rng, sleep_s)
        if described is not None and described.get("TableStatus") in ("ACTIVE", "UPDATING"):
            _check(client, described)
            return created
        sleep_s(pause_s(attempt, rng, _FIRST_S))
    status = "missing" if described is None else described.get("TableStatus")
    raise Refused(
        f"the registry's table does not become usable: table={client.url.table} status={status}; "
        "look at it, and try again"
    )


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


def _described(
    client: DynamoClient, rng: random.Random, sleep_s: Callable[[float], None]
) -> Mapping[str, Any] | None:
    return retry(partial(_describe, client), _DELAYS, rng, sleep_s=sleep_s, repeats=(Retryable,))


def _describe(client: DynamoClient) -> Mapping[str, Any] | None:
    try:
        described: Mapping[str, Any] = client.call("describe_table", writes=False)["Table"]
    except NoTable:
        return None
    return described


def _check(client: DynamoClient, described: Mapping[str, Any]) -> None:
    difference = key_spec().difference(described)
    if difference is not None:
        raise Refused(
            f"the table has other keys than a registry: table={client.url.table} {difference}; "
            "name another table, or one that does not exist yet"
        )


def _text(keys: Mapping[str, tuple[str, str | None]]) -> str:
    return ",".join(f"{name}:{kind}" for name, kind in keys.values()) or "none"
