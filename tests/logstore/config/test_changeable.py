"""Settings that a running broker does not take: those by which data is deleted."""

import pytest

from logstore.config.broker import check_changed
from logstore.config.kinds import InvalidConfig


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.retention.ms", "-1"),
        ("log.retention.minutes", "-1"),
        ("log.retention.hours", "-1"),
        ("log.retention.bytes", "-1"),
        ("log.cleanup.policy", "compact"),
        ("log.cleaner.delete.retention.ms", "5"),
        ("offsets.retention.minutes", "9"),
        ("logstore.delete.grace.ms", "60000"),
    ],
)
def test_no_deletion_goes_by_a_row_that_may_be_lost(name: str, text: str) -> None:
    with pytest.raises(InvalidConfig, match=f"changed while it runs: {name}"):
        check_changed(name, text)
