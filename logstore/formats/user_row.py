"""Rows of users: what it takes to check their passwords, never the passwords. Pure.

    user / <00-ff>    version, users: {"alice": {"SCRAM-SHA-512": {"i": 8192, "k": ["<salt>",
                      "<stored key>", "<server key>"], "before": ["<stored key>", "<server key>"],
                      "before_until_ms": 1790000000000}}}

Bytes are in base64. A user's row is found by the hash of the name. A row is never removed, and
changes on condition of its version, so that a late write brings back no user who was deleted.
`before` is an earlier password that counts for a while; it has the salt of the present one.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Annotated, Any, NamedTuple

from logstore.formats.feed_row import FeedChange
from logstore.formats.row_fields import ID_BYTES, Form, decode_row, encode_row
from logstore.ports.registry import Row
from logstore.security.scram import HASHES, Verifier

USER = "user"

USERS_CHANGED = FeedChange("user/", bytes(ID_BYTES))
"""In the change feed: some row of users has changed. As `quota_row.QUOTAS_CHANGED`."""


class ScramCredential(NamedTuple):
    """Of one mechanism."""

    verifier: Verifier
    before: Verifier | None = None
    before_until_ms: int = 0

    def at(self, now_ms: int) -> tuple[Verifier, ...]:
        """The verifiers that count then."""
        if self.before is not None and now_ms < self.before_until_ms:
            return self.verifier, self.before
        return (self.verifier,)


Credentials = Mapping[str, ScramCredential]
"""By mechanism."""
Users = Mapping[str, Credentials]


def user_row_of(name: str) -> str:
    """The sk of the row that has a user."""
    return blake2b(name.encode(), digest_size=1).hexdigest()


def _pack(users: Users) -> str:
    texts = {
        name: {mechanism: _fields(one) for mechanism, one in credentials.items()}
        for name, credentials in users.items()
    }
    return json.dumps(texts, sort_keys=True, separators=(",", ":"))


def _fields(credential: ScramCredential) -> dict[str, Any]:
    one, before = credential.verifier, credential.before
    keys = [_encode(part) for part in (one.salt, one.stored_key, one.server_key)]
    fields: dict[str, Any] = {"i": one.iterations, "k": keys}
    if before is not None:
        fields["before"] = [_encode(part) for part in (before.stored_key, before.server_key)]
        fields["before_until_ms"] = credential.before_until_ms
    return fields


def _unpack(text: str) -> Users:
    return {
        str(name): {
            str(mechanism): _credential(fields)
            for mechanism, fields in credentials.items()
            if mechanism in HASHES
        }
        for name, credentials in json.loads(text).items()
    }


def _credential(fields: Any) -> ScramCredential:
    salt, stored_key, server_key = map(base64.b64decode, fields["k"])
    iterations = int(fields["i"])
    verifier = Verifier(salt, stored_key, server_key, iterations)
    if "before" not in fields:
        return ScramCredential(verifier)
    old_stored, old_server = map(base64.b64decode, fields["before"])
    before = Verifier(salt, old_stored, old_server, iterations)
    return ScramCredential(verifier, before, int(fields["before_until_ms"]))


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


_USERS = Form(str, _pack, _unpack, is_secret=True)


@dataclass(frozen=True, slots=True)
class UserRow:
    version: int = 0
    """Goes up with every change; 0: there is no row yet."""
    users: Annotated[Users, _USERS] = field(default_factory=dict)

    def row(self) -> Row:
        return encode_row(self)

    @staticmethod
    def of(row: Row) -> "UserRow":
        return decode_row(UserRow, row)
