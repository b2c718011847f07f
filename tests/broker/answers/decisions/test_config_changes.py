"""Operations on configs: what they make of what a topic has, and what they cannot be."""

import pytest

from broker.answers.decisions.config_changes import apply_changes, check_changes
from broker.answers.error_codes import code_of
from logstore.config.topics import TOPIC_SETTINGS
from logstore.errors import LogstoreError
from logstore.wire.errors import ErrorCode

DEFAULTS = {name: setting.default for name, setting in TOPIC_SETTINGS.items()}
SET, DELETE, APPEND, SUBTRACT = range(4)
Asked = tuple[str, int, str | None]


def changed(configs: dict[str, str], *asked: Asked) -> dict[str, str]:
    return apply_changes(configs, DEFAULTS, check_changes(asked))


def test_values_are_set_and_deleted() -> None:
    before = {"retention.ms": "5", "segment.ms": "6"}

    assert changed(before, ("retention.ms", SET, "7"), ("segment.ms", DELETE, None)) == {
        "retention.ms": "7"
    }
    assert changed(before, ("max.message.bytes", DELETE, "ignored")) == before


@pytest.mark.parametrize(
    ("before", "operation", "value", "after"),
    [
        (None, APPEND, "compact", "delete,compact"),
        (None, APPEND, "delete", "delete"),
        ("compact", APPEND, "delete", "compact,delete"),
        ("compact, delete", SUBTRACT, "compact", "delete"),
        ("compact", SUBTRACT, "delete", "compact"),
        (None, SUBTRACT, "delete", ""),
    ],
)
def test_lists_grow_and_shrink_from_what_holds(
    before: str | None, operation: int, value: str, after: str
) -> None:
    configs = {} if before is None else {"cleanup.policy": before}

    assert changed(configs, ("cleanup.policy", operation, value)) == {"cleanup.policy": after}


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ([("retention.ms", SET, "1"), ("retention.ms", DELETE, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", 4, "1")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", -1, "1")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("cleanup.policy", APPEND, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SUBTRACT, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention", DELETE, None)], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, "soon")], ErrorCode.INVALID_CONFIG),
        ([("cleanup.policy", APPEND, "keep")], ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_cannot_be_is_refused(asked: list[Asked], code: ErrorCode) -> None:
    with pytest.raises(LogstoreError) as refused:
        changed({}, *asked)

    assert code_of(refused.value) == code
