"""Row of a broker: its process, its address, and how far it is. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, NamedTuple

from logstore.formats.levels import OLDEST_LEVEL
from logstore.formats.row_fields import (
    NUMBERS,
    OPTIONAL_INT,
    OPTIONAL_TEXT,
    Form,
    decode_row,
    encode_row,
)
from logstore.ports.registry import Row

BROKER = "broker"
NO_FEED = -1


class BrokerStatus(StrEnum):
    SERVING = "serving"
    DRAINING = "draining"
    """Hands its partitions over and wants no more of them."""
    STOPPED = "stopped"
    """Clean shutdown: its lease need not be waited for."""
    FENCED = "fenced"
    """Taken for dead by the controller: it can renew no more, and finds out when it tries."""


class Address(NamedTuple):
    host: str
    port: int


def _listeners_of(text: str) -> dict[str, Address]:
    known = json.loads(text).items()
    return {str(name): Address(str(host), int(port)) for name, (host, port) in known}


_LISTENERS = Form(str, lambda known: json.dumps(dict(known), sort_keys=True), _listeners_of)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRow:
    """`lock` names the file lock its process holds; `heartbeat` only ever grows.

    `host` and `port` are those of the first listener; `listeners` has the address of each, by name.
    """

    epoch: int
    heartbeat: int
    host: str
    port: int
    rack: str
    lock: str
    status: BrokerStatus = BrokerStatus.SERVING
    put_age_ms: int = 0
    """How long its oldest put has been waiting for an answer; 0 when none waits."""
    committed_end: int = 0
    """First seq of its chain that was not committed at its last heartbeat: the store answers it."""
    followed: Annotated[tuple[int, ...], NUMBERS] = ()
    """Chains of other brokers whose tail it has seen lately, and can serve consumers from."""
    listeners: Annotated[Mapping[str, Address], _LISTENERS] = field(default_factory=dict)
    version: Annotated[str, OPTIONAL_TEXT] = ""
    """Of its logstore; empty: 0.1.0 or earlier, which did not say."""
    feed: Annotated[int, OPTIONAL_INT] = NO_FEED
    """Up to which version it had read and applied the change feed at its last heartbeat."""
    level_min: Annotated[int, OPTIONAL_INT] = OLDEST_LEVEL
    level_max: Annotated[int, OPTIONAL_INT] = OLDEST_LEVEL
    """Format levels that it reads, and can write: from and to (`formats.levels`)."""

    @property
    def says_feed(self) -> bool:
        """False: a release of before, which did not say how far it has read the feed."""
        return self.feed != NO_FEED

    def row(self) -> Row:
        return encode_row(self)

    @staticmethod
    def of(row: Row) -> "BrokerRow":
        return decode_row(BrokerRow, row)

    def address(self, listener: str) -> Address:
        """Where clients of `listener` reach this broker; without one of that name, by its first."""
        return self.listeners.get(listener) or Address(self.host, self.port)
