"""The cluster row is made once, and never where a registry was lost."""

from dataclasses import replace

import pytest

from logstore.errors import NotFound, Refused
from logstore.formats.cluster_row import ClusterRow
from logstore.formats.levels import NEWEST_LEVEL
from logstore.protocol.chain.identity import Identity, encode_identity, ensure_identity
from logstore.protocol.steps import PutRow
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


def test_the_row_gets_the_level_that_the_log_was_created_with() -> None:
    """A broker of the release before may have created cluster.json, and starts beside this one."""
    older = replace(IDENTITY, format_level=1)
    row = ClusterRow(IDENTITY.cluster_id, 1, 1).row()
    answers = [encode_identity(older), NO_ROW, NotFound("no opening"), None, row]

    identity, made = drive(ensure_identity(IDENTITY.registry), answers)

    assert identity == older
    (put,) = [request for request in made if isinstance(request, PutRow)]
    assert put.row == row


def test_a_log_above_the_level_of_this_version_is_refused() -> None:
    newer = ClusterRow(IDENTITY.cluster_id, 2, NEWEST_LEVEL + 1).row()
    with pytest.raises(Refused, match=f"newer logstore: format_level={NEWEST_LEVEL + 1}"):
        drive(ensure_identity(IDENTITY.registry), [encode_identity(IDENTITY), newer, newer])
