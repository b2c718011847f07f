"""Users in the registry: read, and changed one row at a time. Steps.

The caller publishes a change (`USERS_CHANGED`). Of two concurrent changes both are kept.
"""

from collections.abc import Callable, Sequence

from logstore.errors import ConditionFailed, Invalid, Retryable
from logstore.formats.secret_row import CLUSTER_SECRET, SECRET, SECRET_BYTES, SecretRow
from logstore.formats.user_row import USER, Credentials, UserRow, Users
from logstore.ports.registry import Comparison, Condition, Row, RowAbsent
from logstore.protocol.steps import BackOff, DrawNonce, GetRow, PutRow, QueryRows, Steps, sliced
from logstore.slices import Slices

ATTEMPTS_MAX = 20
ROW_BYTES_MAX = 128 * 1024
"""There are 256 rows: some 100,000 users in all, a slice of work each (4 ms)."""

Decide = Callable[[Users], dict[str, Credentials]]
"""Users of one row → the same after a change; without credentials one is no user any more."""


class TooManyUsers(Invalid):
    """The row that a user belongs to is full."""


def read_users() -> Steps[Users]:
    rows = yield QueryRows(USER)
    return (yield from sliced(_decoded_in_slices(rows)))


def _decoded_in_slices(rows: Sequence[tuple[str, Row]]) -> Slices[Users]:
    users: dict[str, Credentials] = {}
    for _, row in rows:
        users.update(UserRow.of(row).users)
        yield
    return users


def change_users(sk: str, decide: Decide) -> Steps[UserRow]:
    """Change users of one row; nothing is written where nothing changes.

    `decide` may raise; it is called again with what another writer left. Raises `TooManyUsers`,
    `Retryable` after losing many races, or as the registry does.
    """
    for attempt in range(1, ATTEMPTS_MAX + 1):
        row = yield GetRow(USER, sk)
        known = UserRow() if row is None else UserRow.of(row)
        users = {name: one for name, one in decide(known.users).items() if one}
        if users == known.users:
            return known
        wanted = UserRow(known.version + 1, users)
        encoded = wanted.row()
        if len(str(encoded["users"])) > ROW_BYTES_MAX and len(users) >= len(known.users):
            raise TooManyUsers(
                f"too many users: row=user/{sk} bytes_max={ROW_BYTES_MAX}; remove others"
            )
        try:
            yield PutRow(USER, sk, encoded, _as_it_was(known))
        except ConditionFailed:
            yield BackOff(attempt)
        else:
            return wanted
    raise Retryable("too many concurrent changes of users; try again")


def _as_it_was(known: UserRow) -> Sequence[Condition]:
    return [Comparison("version", "=", known.version)] if known.version else [RowAbsent()]


def cluster_secret() -> Steps[bytes]:
    """The secret of this cluster's brokers; the first one that asks draws it."""
    while True:
        row = yield GetRow(SECRET, CLUSTER_SECRET)
        if row is not None:
            return SecretRow.of(row).key
        key = b""
        while len(key) < SECRET_BYTES:
            key += yield DrawNonce()
        try:
            yield PutRow(SECRET, CLUSTER_SECRET, SecretRow(key[:SECRET_BYTES]).row(), [RowAbsent()])
        except ConditionFailed:
            continue  # another broker was first
