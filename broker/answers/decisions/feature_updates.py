"""Features of the cluster, as ApiVersions shows them and UpdateFeatures changes them. Pure.

There is one, the format level (`logstore.formats.levels`). What is supported is what this broker
reads, what is finalized is the cluster row's. It only goes up, so it is its own epoch: of two
answers, the one with the higher epoch is newer (KIP-584).

Kafka's own features (`transaction.version`, `group.version`, `share.version`, `streams.version`)
are not supported at any version above 0. Like Kafka, which leaves out a feature whose highest
version is 0, this broker does not list them: a client that saw one finalized would begin
transactions or groups of a kind that is not served.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from broker.answers.decisions.refuse import Refuse
from logstore.wire.errors import ErrorCode

FORMAT_LEVEL = "logstore.format.level"
NAME_SHOWN_MAX = 100
"""Characters of a feature's name in an answer: a client may give any length."""


class UpgradeType(IntEnum):
    """As in Kafka's FeatureUpdate; version 0 of the request knows UPGRADE alone."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class Update(NamedTuple):
    """One feature that a client wants at another version."""

    feature: str
    version: int
    upgrade_type: int


class Levels(NamedTuple):
    """Format levels: the finalized one, and those that this broker reads."""

    finalized: int
    lowest: int
    highest: int


def plan_updates(updates: Iterable[Update], levels: Levels) -> int:
    """The format level to finalize; the present one if nothing changes.

    One bad update refuses all of them, as in Kafka (FeatureControlManager). Raises `Refuse`.
    """
    level = levels.finalized
    for update in dict.fromkeys(updates):
        fault = _fault(update, levels._replace(finalized=level))
        if fault is not None:
            name = update.feature[:NAME_SHOWN_MAX]
            raise Refuse(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"no feature was changed: feature={name} version={update.version}: {fault}",
            )
        level = update.version
    return level


def _fault(update: Update, levels: Levels) -> str | None:
    """Why it is refused, in the order in which Kafka looks; None: it is not."""
    if update.upgrade_type not in UpgradeType.__members__.values():
        return f"no such upgrade type: {update.upgrade_type}; 1 upgrades"
    if update.feature != FORMAT_LEVEL:
        return f"this broker does not support the feature; it supports {FORMAT_LEVEL} alone"
    if not levels.lowest <= update.version <= levels.highest:
        return f"this broker supports versions {levels.lowest} to {levels.highest}"
    if update.version < levels.finalized:
        return (
            f"version {levels.finalized} is finalized, and its forms may be stored: it is never "
            "lowered"
        )
    if update.version > levels.finalized and update.upgrade_type != UpgradeType.UPGRADE:
        return "a downgrade to a newer version; ask for an upgrade"
    return None
