"""Row of settings that brokers take while they run: of one broker, or of all. Pure.

    config / broker=<id>     version, configs: {"num.partitions": "3"}
    config / broker=         the same for all brokers

A row is never removed, and changes on condition of its version.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from logstore.formats.feed_row import FeedChange
from logstore.formats.row_fields import ID_BYTES, JSON_TEXTS, decode_row, encode_row
from logstore.ports.registry import Row

CONFIG = "config"
BROKER_PREFIX = "broker="
ALL_BROKERS = ""

CONFIGS_CHANGED = FeedChange("config/", bytes(ID_BYTES))
"""In the change feed: some row of settings has changed. As `quota_row.QUOTAS_CHANGED`."""

BrokerConfigs = Mapping[str, Mapping[str, str]]
"""By id of the broker, as text; `ALL_BROKERS`: of all."""


@dataclass(frozen=True, slots=True)
class ConfigRow:
    version: int = 0
    """Goes up with every change; 0: there is no row yet."""
    configs: Annotated[Mapping[str, str], JSON_TEXTS] = field(default_factory=dict)

    def row(self) -> Row:
        return encode_row(self)

    @staticmethod
    def of(row: Row) -> "ConfigRow":
        return decode_row(ConfigRow, row)
