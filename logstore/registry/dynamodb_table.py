"""Makes and checks the table that holds a registry: `logstore init`."""

import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from logstore.errors import OutcomeUnknown, Refused, Retryable
from logstore.registry.dynamodb_client import DynamoClient
from logstore.registry.dynamodb_errors import NoTable
from logstore.registry.key_spec import key_spec
from logstore.registry.retrying import Backoff

ATTEMPTS_MAX = 40  # a new table takes some seconds on AWS
_BACKOFF = Backoff(first_s=0.1)

_Describe = Callable[[], Mapping[str, Any] | None]


def ensure_table(
    client: DynamoClient, chance: random.Random, sleep_s: Callable[[float], None]
) -> bool:
    """Leaves a table that can be used; whether this call made it.

    Raises `Refused` when there is one with other keys, or it does not become usable.
    """
    described = _patiently(lambda: _describe(client), chance, sleep_s)
    created = described is None
    if created:
        # Another makes it, or the answer was lost: the wait below finds out.
        with suppress(Retryable, OutcomeUnknown):
            client.call("create_table", writes=True, **key_spec().creation())
    for attempt in range(1, ATTEMPTS_MAX + 1):
        described = _patiently(lambda: _describe(client), chance, sleep_s)
        if described is not None and described.get("TableStatus") in ("ACTIVE", "UPDATING"):
            _check(client, described)
            return created
        sleep_s(_BACKOFF.wait_s(attempt, chance))
    status = "missing" if described is None else described.get("TableStatus")
    raise Refused(
        f"the registry's table does not become usable: table={client.url.table} status={status}; "
        "look at it, and try again"
    )


def _describe(client: DynamoClient) -> Mapping[str, Any] | None:
    try:
        described: Mapping[str, Any] = client.call("describe_table", writes=False)["Table"]
    except NoTable:
        return None
    return described


def _patiently(
    describe: _Describe, chance: random.Random, sleep_s: Callable[[float], None]
) -> Mapping[str, Any] | None:
    """A few attempts: whoever sets something up waits in front of it."""
    for attempt in (1, 2, 3):
        try:
            return describe()
        except Retryable:
            sleep_s(_BACKOFF.wait_s(attempt, chance))
    return describe()


def _check(client: DynamoClient, described: Mapping[str, Any]) -> None:
    difference = key_spec().difference(described)
    if difference is not None:
        raise Refused(
            f"the table has other keys than a registry: table={client.url.table} {difference}; "
            "name another table, or one that does not exist yet"
        )
