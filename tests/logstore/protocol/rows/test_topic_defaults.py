"""What topics inherit, by the rows of chains: where brokers disagree nothing is deleted by age."""

from collections.abc import Mapping

import pytest

from logstore.formats.chain_row import ChainRow, ChainStatus
from logstore.ports.registry import Row
from logstore.protocol.rows.metadata import read_topic_defaults

COMPACT, BOTH = {"cleanup.policy": "compact"}, {"cleanup.policy": "compact,delete"}
OPEN, SEALED = ChainStatus.OPEN, ChainStatus.SEALED


def defaults(*chains: tuple[ChainStatus, Mapping[str, str]]) -> Mapping[str, str]:
    """By rows of chains, the one that began last at the end."""
    rows: list[tuple[str, Row]] = [
        (f"{epoch:020}", ChainRow(status=status, broker=epoch, topic_defaults=given).row())
        for epoch, (status, given) in enumerate(chains, 1)
    ]
    steps = read_topic_defaults()
    next(steps)
    with pytest.raises(StopIteration) as ended:
        steps.send(rows[::-1])
    found: Mapping[str, str] = ended.value.value
    return found


def test_the_broker_that_started_last_says_what_topics_inherit() -> None:
    assert defaults() == {}
    assert defaults((OPEN, {}), (OPEN, BOTH)) == BOTH
    assert defaults((OPEN, {"delete.retention.ms": "5"}), (OPEN, {})) == {}


def test_one_that_deletes_by_age_does_not_outweigh_one_that_compacts() -> None:
    late = {"delete.retention.ms": "5"}

    assert defaults((OPEN, COMPACT), (OPEN, {})) == COMPACT
    assert defaults((OPEN, COMPACT), (OPEN, {**BOTH, **late})) == {**COMPACT, **late}
    assert defaults((SEALED, COMPACT), (OPEN, {})) == {}, "its broker is gone"
