"""Every version of every stored form belongs to a format level, in the code and in the docs."""

from pathlib import Path

import pytest

from broker.groups.decisions import formats as groups
from logstore.errors import Refused
from logstore.formats import checkpoint_header, manifest, partition_state, segment, topic_record
from logstore.formats.levels import (
    BRINGS,
    LEVEL_OF,
    NEWEST_LEVEL,
    OLDEST_LEVEL,
    StoredForm,
    check_known,
    why_not_written,
)
from logstore.history.forms.names import SCHEMA_VERSION

DOCS = Path(__file__).parents[3] / "docs" / "formats"

WRITTEN: dict[StoredForm, set[int]] = {
    StoredForm.SEGMENT: {
        segment.FORMAT,
        segment.FORMAT_FORGETTING,
        segment.FORMAT_DELETED_BELOW,
        segment.FORMAT_ADOPT_END,
    },
    StoredForm.STATE: {partition_state.STATE_VERSION, partition_state.STATE_VERSION_SINKS},
    StoredForm.CHECKPOINT: {checkpoint_header.FORMAT, checkpoint_header.FORMAT_DELETED_BELOW},
    StoredForm.TOPIC_RECORD: {topic_record.FORMAT},
    StoredForm.MANIFEST: {manifest.HEAD_VERSION},
    StoredForm.TABLE: {int(SCHEMA_VERSION)},
    StoredForm.OFFSET: {groups.OFFSET_WRITTEN, groups.OFFSET_WRITTEN_WITH_EXPIRY},
    StoredForm.GROUP: {groups.GROUP_WRITTEN},
    StoredForm.IDENTITY: set(range(OLDEST_LEVEL, NEWEST_LEVEL + 1)),
}
"""Versions that the code writes."""


@pytest.mark.parametrize("form", StoredForm)
def test_each_version_that_is_written_has_a_level(form: StoredForm) -> None:
    assert {version for one, version in LEVEL_OF if one is form} == WRITTEN[form]


def test_a_form_never_comes_back_to_a_lower_level() -> None:
    for form in StoredForm:
        levels = [level for (one, _), level in sorted(LEVEL_OF.items()) if one is form]
        assert levels == sorted(levels)
    assert set(BRINGS) == set(range(OLDEST_LEVEL, NEWEST_LEVEL + 1)) == set(LEVEL_OF.values())


def test_what_is_above_the_level_is_refused_with_the_cure() -> None:
    assert why_not_written(2, 2, "a sink") is None
    why = why_not_written(1, 2, "a sink")
    assert why is not None
    assert "writes format level 1, and a sink needs level 2" in why
    assert "logstore upgrade --url URL --finalize" in why


def test_a_newer_log_is_refused_by_level_and_version() -> None:
    check_known(NEWEST_LEVEL, "1.0")
    with pytest.raises(Refused, match=r"newer logstore: format_level=9 known=2 version=1\.0"):
        check_known(9, "1.0")


@pytest.mark.parametrize(
    "page",
    ["segment.md", "state.md", "checkpoint.md", "staging.md", "topic-record.md", "table.md"],
)
def test_each_page_of_a_format_says_levels(page: str) -> None:
    assert "level" in (DOCS / page).read_text().partition("## Changing it")[2]
