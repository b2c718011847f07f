"""Format levels: one number says which stored forms a cluster may write. Pure.

The cluster row has the finalized level. It is raised by `logstore upgrade --finalize` alone, once
every broker can read what it brings; a new cluster begins with the newest one. Nothing lowers it.

    level  since   brings
    1      0.1.0   all forms that `LEVEL_OF` gives 1
    2      0.2.0   Spark sinks that leaders copy: adopt ends, states that know a sink, staging

A version reads the forms of every level from `OLDEST_LEVEL` to `NEWEST_LEVEL`, and refuses a
cluster of a higher one by name. It begins nothing of a form above the finalized level, so that the
release before can be started again until the level is raised.

Two forms follow from what a chain holds, and ask no level: a checkpoint is a function of its chain,
and a state is carried on as it was inherited. A state that knows a sink stays so in a cluster of
level 1 (builds between releases wrote such): without its memory of the sink a repeated batch would
be stored twice.

Rows of the registry have no versions: a new attribute may be missing, and older versions pass it
by. Records of consumer groups are Kafka's, and a broker keeps those of a newer version as they are.
"""

from collections.abc import Mapping
from enum import StrEnum

from logstore.errors import Refused

OLDEST_LEVEL, NEWEST_LEVEL = 1, 2


class StoredForm(StrEnum):
    """A kind of stored bytes that says its version in itself."""

    IDENTITY = "cluster.json"
    SEGMENT = "segment"
    STATE = "partition state"
    CHECKPOINT = "checkpoint"
    TOPIC_RECORD = "topic record"
    MANIFEST = "manifest of a Spark sink"
    TABLE = "table schema"
    OFFSET = "committed offset"
    GROUP = "consumer group"


LEVEL_OF: Mapping[tuple[StoredForm, int], int] = {
    (StoredForm.IDENTITY, 1): 1,
    (StoredForm.IDENTITY, 2): 2,  # its format is the level that the log was created with
    (StoredForm.SEGMENT, 1): 1,
    (StoredForm.SEGMENT, 2): 1,  # forgotten epoch ranges
    (StoredForm.SEGMENT, 3): 1,  # deleted below
    (StoredForm.SEGMENT, 4): 2,  # adopt ends
    (StoredForm.STATE, 1): 1,
    (StoredForm.STATE, 2): 2,  # knows a sink
    (StoredForm.CHECKPOINT, 1): 1,
    (StoredForm.CHECKPOINT, 2): 1,  # deleted below
    (StoredForm.TOPIC_RECORD, 1): 1,
    (StoredForm.MANIFEST, 1): 2,
    (StoredForm.TABLE, 1): 1,
    (StoredForm.OFFSET, 1): 1,
    (StoredForm.OFFSET, 4): 1,
    (StoredForm.GROUP, 3): 1,
}
"""The lowest level at which a version of a form is written."""

SINK_LEVEL = LEVEL_OF[StoredForm.SEGMENT, 4]
A_SINK = "a Spark sink that writes exactly once"
BRINGS: Mapping[int, str] = {
    1: "the forms of 0.1.0",
    2: "Spark sinks that write exactly once (segments of format 4, partition states of version 2)",
}


def why_not_written(finalized: int, needed: int, what: str) -> str | None:
    """Why a cluster of level `finalized` does not write `what`, and the cure; None: it does."""
    if finalized >= needed:
        return None
    return (
        f"the cluster writes format level {finalized}, and {what} needs level {needed}: upgrade "
        f"every broker, then finalize level {needed}: logstore upgrade --url URL --finalize"
    )


def check_known(level: int, version: str, known: int = NEWEST_LEVEL) -> None:
    """Raises `Refused` for a log above level `known`, the highest that this `version` reads."""
    if level > known:
        raise Refused(
            f"the log was written by a newer logstore: format_level={level} known={known} "
            f"version={version}; upgrade this one"
        )
