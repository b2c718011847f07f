"""Lines for auditors: who logged in, what was denied, which rights changed. JSON, one line each.

The form is that of the Open Cybersecurity Schema Framework: Authentication (class 3002) for logins,
API Activity (class 6003) for requests. The logger is `logstore.audit`, so that lines can be sent
elsewhere; no secret is ever in one. A client may be denied as often as it asks: all denials are
counted, a few a second have a line, and the next one says how many have none.
"""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any

from logstore.ports.clock import Clock
from logstore.security.acls import Acl, Operation, Resource
from logstore.version import VERSION

SCHEMA_VERSION = "1.3.0"
LINES_PER_S = 5
"""Of denials."""
NAME_CHARACTERS_MAX = 300
"""Of a name that a client gives, which may have any length."""
ACLS_MAX = 100
"""Of one line; it says how many there are."""

logger = logging.getLogger("logstore.audit")


class _Class(IntEnum):
    AUTHENTICATION = 3002
    API_ACTIVITY = 6003


class Activity(IntEnum):
    """Of a request, by the numbers of class 6003."""

    CREATE = 1
    READ = 2
    UPDATE = 3
    DELETE = 4
    OTHER = 99


_LOG_ON = 1
_SUCCESS, _FAILURE = 1, 2
_INFORMATIONAL, _MEDIUM = 1, 3
_ACTIVITIES: Mapping[Operation, Activity] = {
    Operation.CREATE: Activity.CREATE,
    Operation.READ: Activity.READ,
    Operation.DESCRIBE: Activity.READ,
    Operation.DESCRIBE_CONFIGS: Activity.READ,
    Operation.WRITE: Activity.UPDATE,
    Operation.ALTER: Activity.UPDATE,
    Operation.ALTER_CONFIGS: Activity.UPDATE,
    Operation.DELETE: Activity.DELETE,
}


def note_login(
    *, now_ms: int, principal: str, peer: str, mechanism: str, listener: str, refusal: str = ""
) -> None:
    """Write the line of a login; `refusal` says why it failed, in words of ours; empty: it did not.

    `principal` is the one that logged in, or that a client gave itself out for.
    """
    _write(
        _Class.AUTHENTICATION,
        _LOG_ON,
        now_ms,
        is_refused=bool(refusal),
        status_detail=refusal,
        user={"name": principal[:NAME_CHARACTERS_MAX]},
        src_endpoint=_endpoint(peer),
        auth_protocol=mechanism,
        dst_endpoint={"name": listener},
    )


def note_acls_changed(
    *,
    now_ms: int,
    principal: str,
    peer: str,
    api: str,
    made: Iterable[Acl],
    deleted: Iterable[Acl],
) -> None:
    """Write the line of a change: the ACLs that were there before alone, and after it alone."""
    after, before = list(made), list(deleted)
    _write(
        _Class.API_ACTIVITY,
        Activity.CREATE if after else Activity.DELETE,
        now_ms,
        actor={"user": {"name": principal[:NAME_CHARACTERS_MAX]}},
        src_endpoint=_endpoint(peer),
        api={"operation": api},
        unmapped={
            "before": list(map(str, before[:ACLS_MAX])),
            "before_count": len(before),
            "after": list(map(str, after[:ACLS_MAX])),
            "after_count": len(after),
        },
    )


class Denials:
    """Requests that clients had no right to: all are counted, by API, and a few have a line."""

    def __init__(self, clock: Clock, now_s: Callable[[], float]) -> None:
        self.by_api: Counter[str] = Counter({"Fetch": 0})  # a series before it grows
        self._clock = clock
        self._now_s = now_s
        self._second_ends_s = float("-inf")
        self._lines_left = 0
        self._without_a_line = 0

    def note(
        self, api: str, principal: str, peer: str, operation: Operation, resource: Resource
    ) -> None:
        self.by_api[api] += 1
        now_s = self._now_s()
        if now_s >= self._second_ends_s:
            self._second_ends_s, self._lines_left = now_s + 1.0, LINES_PER_S
        if not self._lines_left:
            self._without_a_line += 1
            return
        self._lines_left -= 1
        _write(
            _Class.API_ACTIVITY,
            _ACTIVITIES.get(operation, Activity.OTHER),
            self._clock.now_ms(),
            is_refused=True,
            status_detail=f"no right: {operation.name}",
            actor={"user": {"name": principal[:NAME_CHARACTERS_MAX]}},
            src_endpoint=_endpoint(peer),
            api={"operation": api},
            resources=[{"type": resource.kind.name, "name": resource.name[:NAME_CHARACTERS_MAX]}],
            unmapped={"denials_without_a_line": self._without_a_line},
        )
        self._without_a_line = 0


def _endpoint(peer: str) -> dict[str, Any]:
    host, _, port = peer.rpartition(":")
    return {"ip": host, "port": int(port)} if port.isdigit() else {"ip": peer}


def _write(
    kind: _Class, activity: int, now_ms: int, *, is_refused: bool = False, **fields: Any
) -> None:
    line = {
        "class_uid": int(kind),
        "category_uid": kind // 1000,
        "activity_id": int(activity),
        "type_uid": kind * 100 + activity,
        "severity_id": _MEDIUM if is_refused else _INFORMATIONAL,
        "status_id": _FAILURE if is_refused else _SUCCESS,
        "time": now_ms,
        "metadata": {
            "version": SCHEMA_VERSION,
            "product": {"name": "logstore", "version": VERSION},
        },
        **{name: value for name, value in fields.items() if value != ""},
    }
    logger.info("%s", json.dumps(line, separators=(",", ":")))
