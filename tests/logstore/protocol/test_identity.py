"""The cluster row is made once, and never where a registry was lost."""

import pytest

from logstore.errors import Refused
from logstore.formats.cluster_row import ClusterRow
from logstore.formats.levels import NEWEST_LEVEL
from logstore.protocol.identity import Identity, encode_identity, ensure_identity
from logstore.testing.scripted import drive

IDENTITY = Identity(b"c" * 16, "sqlite:registry.db")
WRITTEN = ClusterRow(IDENTITY.cluster_id, 2, NEWEST_LEVEL).row()
NO_ROW, OPENING = None, bytes(64)


def test_a_broker_that_another_one_overtakes_at_the_first_start_finds_its_row() -> None:
    """The other wrote the row, and opened chain 1, between two requests of this one."""
    answers = [encode_identity(IDENTITY), NO_ROW, OPENING, WRITTEN, WRITTEN]

    identity, _ = drive(ensure_identity(IDENTITY.registry), answers)

    assert identity == IDENTITY


def test_a_lost_registry_gets_no_cluster_row() -> None:
    answers = [encode_identity(IDENTITY), NO_ROW, OPENING, NO_ROW]

    with pytest.raises(Refused, match="the log has chains and the registry is empty"):
        drive(ensure_identity(IDENTITY.registry), answers)
