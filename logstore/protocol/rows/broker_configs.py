"""Settings of brokers in the registry: read, and changed. Steps; the caller publishes a change."""

from collections.abc import Callable, Mapping, Sequence

from logstore.errors import ConditionFailed, Retryable
from logstore.formats.config_row import BROKER_PREFIX, CONFIG, BrokerConfigs, ConfigRow
from logstore.ports.registry import Comparison, Condition, RowAbsent
from logstore.protocol.steps import BackOff, GetRow, PutRow, QueryRows, Steps

ATTEMPTS_MAX = 20

Change = Callable[[Mapping[str, str]], Mapping[str, str]]


def read_broker_configs() -> Steps[BrokerConfigs]:
    rows = yield QueryRows(CONFIG, BROKER_PREFIX)
    return {sk.removeprefix(BROKER_PREFIX): ConfigRow.of(row).configs for sk, row in rows}


def change_broker_configs(broker: str, change: Change) -> Steps[ConfigRow]:
    """The row as it is afterwards; nothing is written where `change` changes nothing.

    Raises `Retryable` after losing many races, the `Invalid` that `change` does, and as the
    registry does.
    """
    sk = BROKER_PREFIX + broker
    for attempt in range(1, ATTEMPTS_MAX + 1):
        row = yield GetRow(CONFIG, sk)
        known = ConfigRow() if row is None else ConfigRow.of(row)
        configs = dict(change(known.configs))
        if configs == known.configs:
            return known
        wanted = ConfigRow(known.version + 1, configs)
        try:
            yield PutRow(CONFIG, sk, wanted.row(), _as_it_was(known))
        except ConditionFailed:
            yield BackOff(attempt)
        else:
            return wanted
    raise Retryable(f"too many concurrent changes of these settings: broker={broker!r}; try again")


def _as_it_was(known: ConfigRow) -> Sequence[Condition]:
    return [Comparison("version", "=", known.version)] if known.version else [RowAbsent()]
