"""Rows of client quotas: who is limited, and to how much. Pure.

    quota / <0-f>     version, quotas: {"user=alice/client-id=app": {"producer_byte_rate": 1024.0}}

An entity is a user, a client id, both, or an address; each is named, or the default of its kind
(`user=`). Its row is found by the hash of that text. A row is never removed, and changes on
condition of its version, so a write that was given up as lost cannot undo a later one.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Annotated, NamedTuple
from urllib.parse import quote, unquote

from logstore.formats.feed_row import FeedChange
from logstore.formats.row_fields import ID_BYTES, Form, decode_row, encode_row
from logstore.ports.registry import Row

QUOTA = "quota"
USER, CLIENT_ID, IP = "user", "client-id", "ip"
DEFAULT = ""
"""The name of the default of a kind: no user, client id or address is empty."""

QUOTAS_CHANGED = FeedChange("quota/", bytes(ID_BYTES))
"""In the change feed: some row of quotas has changed. No topic has such a name, so that an earlier
version finds that it has no row."""

Values = Mapping[str, float]
"""Limits by name, such as `producer_byte_rate`."""


class QuotaEntity(NamedTuple):
    """Clients that a quota is for. A part that is None does not matter."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @property
    def parts(self) -> Iterator[tuple[str, str]]:
        """Kind and name of those that are not None."""
        for kind, name in zip((USER, CLIENT_ID, IP), self, strict=True):
            if name is not None:
                yield kind, name

    @property
    def key(self) -> str:
        return "/".join(f"{kind}={quote(name, safe='')}" for kind, name in self.parts)

    @property
    def row(self) -> str:
        """The sk of the row that has it."""
        return blake2b(self.key.encode(), digest_size=1).hexdigest()[0]


Quotas = Mapping[QuotaEntity, Values]


def _entity_of(key: str) -> QuotaEntity:
    parts = dict(part.split("=") for part in key.split("/"))
    if len(parts) != key.count("/") + 1 or not parts.keys() <= {USER, CLIENT_ID, IP}:
        raise ValueError(key)
    names = {kind: unquote(name, errors="strict") for kind, name in parts.items()}
    return QuotaEntity(names.get(USER), names.get(CLIENT_ID), names.get(IP))


def _pack(quotas: Quotas) -> str:
    texts = {entity.key: dict(values) for entity, values in quotas.items()}
    return json.dumps(texts, sort_keys=True, separators=(",", ":"))


def _unpack(text: str) -> Quotas:
    return {
        _entity_of(key): {str(name): float(value) for name, value in values.items()}
        for key, values in json.loads(text).items()
    }


_QUOTAS = Form(str, _pack, _unpack)


@dataclass(frozen=True, slots=True)
class QuotaRow:
    version: int = 0
    """Goes up with every change; 0: there is no row yet."""
    quotas: Annotated[Quotas, _QUOTAS] = field(default_factory=dict)

    def row(self) -> Row:
        return encode_row(self)

    @staticmethod
    def of(row: Row) -> "QuotaRow":
        return decode_row(QuotaRow, row)
