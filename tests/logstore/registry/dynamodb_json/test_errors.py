"""What DynamoDB's error answers mean."""

import pytest

from logstore.errors import (
    Denied,
    Invalid,
    LogstoreError,
    OutcomeUnknown,
    Refused,
    Retryable,
    Throttled,
)
from logstore.registry.dynamodb_json.errors import NoTable, lost, meaning


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("ProvisionedThroughputExceededException", 400, Throttled),
        ("ThrottlingException", 400, Throttled),
        ("RequestLimitExceeded", 400, Throttled),
        ("", 429, Throttled),
        ("TransactionConflictException", 400, Retryable),
        ("ResourceInUseException", 400, Retryable),
        ("AccessDeniedException", 400, Denied),
        ("UnrecognizedClientException", 400, Denied),
        ("ExpiredTokenException", 400, Denied),
        ("MissingAuthenticationTokenException", 400, Denied),
        ("KMSAccessDeniedException", 400, Denied),
        ("", 403, Denied),
        ("ResourceNotFoundException", 400, NoTable),
        ("ValidationException", 400, Invalid),
        ("ItemCollectionSizeLimitExceededException", 400, Invalid),
    ],
)
def test_an_answer_means_the_same_for_reads_and_writes(
    code: str, status: int, error: type[LogstoreError]
) -> None:
    assert type(meaning(code, status, "", writes=True)) is error
    assert type(meaning(code, status, "", writes=False)) is error


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_after_a_5xx_a_write_may_have_been_done(status: int) -> None:
    code = "InternalServerError"
    assert type(meaning(code, status, "", writes=True)) is OutcomeUnknown
    assert type(meaning(code, status, "", writes=False)) is Retryable
    assert type(lost("", writes=True)) is OutcomeUnknown


def test_a_missing_table_says_what_to_do() -> None:
    error = meaning("ResourceNotFoundException", 400, "table=logs", writes=False)
    assert isinstance(error, Refused)
    assert "table=logs" in str(error)
    assert "logstore init" in str(error)
