"""Which updates of features are refused: as Apache Kafka refuses them, and no level is lowered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.answers.decisions.feature_updates import (
    FORMAT_LEVEL,
    NAME_SHOWN_MAX,
    Levels,
    Update,
    UpgradeType,
    plan_updates,
)
from broker.answers.decisions.refuse import Refuse
from logstore.wire.errors import ErrorCode

UP, SAFE, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE
LEVELS = Levels(finalized=2, lowest=1, highest=3)


@pytest.mark.parametrize(
    ("update", "level"),
    [
        (Update(FORMAT_LEVEL, 3, UP), 3),
        (Update(FORMAT_LEVEL, 2, UP), 2),
        (Update(FORMAT_LEVEL, 2, SAFE), 2),
        (Update(FORMAT_LEVEL, 2, UNSAFE), 2),
    ],
)
def test_an_upgrade_is_planned_and_the_present_level_is_no_change(
    update: Update, level: int
) -> None:
    assert plan_updates([update, update], LEVELS) == level


def test_nothing_asked_for_is_no_change() -> None:
    assert plan_updates([], LEVELS) == LEVELS.finalized


@pytest.mark.parametrize(
    ("update", "text"),
    [
        (Update("transaction.version", 2, UP), "does not support the feature"),
        (Update("group.version", 1, UP), f"it supports {FORMAT_LEVEL} alone"),
        (Update("metadata.version", 30, UP), "does not support the feature"),
        (Update(FORMAT_LEVEL, 4, UP), "supports versions 1 to 3"),
        (Update(FORMAT_LEVEL, 0, UNSAFE), "supports versions 1 to 3"),
        (Update(FORMAT_LEVEL, -1, UP), "supports versions 1 to 3"),
        (Update(FORMAT_LEVEL, 1, UP), "it is never lowered"),
        (Update(FORMAT_LEVEL, 1, SAFE), "it is never lowered"),
        (Update(FORMAT_LEVEL, 1, UNSAFE), "it is never lowered"),
        (Update(FORMAT_LEVEL, 3, SAFE), "a downgrade to a newer version"),
        (Update(FORMAT_LEVEL, 3, 0), "no such upgrade type: 0"),
        (Update(FORMAT_LEVEL, 3, 7), "no such upgrade type: 7"),
    ],
)
def test_what_cannot_be_is_refused_with_kafkas_code(update: Update, text: str) -> None:
    with pytest.raises(Refuse, match=text) as refused:
        plan_updates([update], LEVELS)
    assert refused.value.code == ErrorCode.INVALID_UPDATE_VERSION


def test_one_that_is_refused_refuses_all() -> None:
    with pytest.raises(Refuse, match="no feature was changed: feature=nope version=1"):
        plan_updates([Update(FORMAT_LEVEL, 3, UP), Update("nope", 1, UP)], LEVELS)


def test_a_long_name_is_not_repeated_whole() -> None:
    with pytest.raises(Refuse) as refused:
        plan_updates([Update("x" * 30_000, 1, UP)], LEVELS)
    assert len(str(refused.value)) < NAME_SHOWN_MAX + 200


@given(
    st.lists(
        st.builds(
            Update,
            st.sampled_from([FORMAT_LEVEL, "transaction.version"]),
            st.integers(-2, 6),
            st.integers(-1, 4),
        )
    ),
    st.integers(1, 3),
)
def test_no_updates_lower_a_level_or_raise_it_above_what_is_read(
    updates: list[Update], finalized: int
) -> None:
    levels = LEVELS._replace(finalized=finalized)
    try:
        level = plan_updates(updates, levels)
    except Refuse:
        return
    assert finalized <= level <= levels.highest
