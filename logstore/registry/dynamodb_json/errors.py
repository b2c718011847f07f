"""Translates error answers of DynamoDB.

    ConditionalCheckFailed     ConditionFailed, with the row as it stands
    throttling                 Throttled
    a concurrent transaction   Retryable: this write was not done; a retry succeeds
    a cancelled transaction    TransactionCancelled, a Retryable with the reason of each write
    no credentials or rights   Denied
    no such table              NoTable, which is a Refused
    a bad request              Invalid: also an item that an update made too big
    5xx                        a read: Retryable; a write: OutcomeUnknown, a proxy in between or the
                               service may answer so after the write has been done

Codes: the API's common errors, and those of its operations. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from logstore.errors import (
    ConditionFailed,
    Corrupt,
    Denied,
    Invalid,
    LogstoreError,
    OutcomeUnknown,
    Refused,
    Retryable,
    Throttled,
)
from logstore.masked import masked
from logstore.registry.dynamodb_json.items import Item, decode_item

_CONDITION_FAILED = "ConditionalCheckFailedException"
_CANCELLED = "TransactionCanceledException"
_NO_TABLE = "ResourceNotFoundException"
_TABLE_IN_USE = "ResourceInUseException"

_THROTTLED = {
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
}
_CONFLICTS = {
    "LimitExceededException",  # too many tables are being made at once
    "ReplicatedWriteConflictException",
    _TABLE_IN_USE,
    "TransactionConflictException",
    "TransactionInProgressException",
}
_DENIED = {
    "AccessDenied",
    "AccessDeniedException",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "IncompleteSignatureException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "NotAuthorized",
    "OptInRequired",
    "RequestExpired",  # also of a clock that is wrong
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}


class NoTable(Refused):
    """There is no such table: only code that creates it needs to distinguish this error."""


class TransactionCancelled(Retryable):
    """None of its writes was done: each is sent again, or fails with its own reason."""

    def __init__(self, message: str, reasons: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.reasons = reasons


def refusal(answer: Mapping[str, Any], facts: str, *, writes: bool) -> LogstoreError:
    """The error of one request: `answer` as botocore parses it, and `facts` to tell."""
    error = answer.get("Error", {})
    code = str(error.get("Code", "")).rpartition("#")[2]
    if code == _CONDITION_FAILED:
        return condition_failed(answer.get("Item"), facts)
    text = f"{facts} code={code} message={masked(str(error.get('Message', '')))}"
    if code == _CANCELLED:
        return TransactionCancelled(
            f"the registry is busy {text}", answer.get("CancellationReasons", ())
        )
    status = int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    return meaning(code, status, text, writes=writes)


def condition_failed(item: Item | None, facts: str) -> LogstoreError:
    """`item` is the row as it stands, none if there is no row. `Corrupt` for a row not ours."""
    try:
        row = decode_item(item)[1] if item else None
    except Corrupt as corrupt:
        return corrupt
    return ConditionFailed(f"condition does not hold {facts}", row)


def meaning(code: str, status: int, facts: str, *, writes: bool) -> LogstoreError:
    """`code` without the service's prefix, HTTP `status`, and `facts` to tell."""
    if code in _THROTTLED or status == 429:
        return Throttled(f"the registry throttles requests {facts}")
    if code in _CONFLICTS:
        return Retryable(f"the registry is busy {facts}")
    if code in _DENIED or code.startswith("KMS") or status in (401, 403):
        return Denied(f"the registry denied access {facts}; check credentials and policy")
    if code == _NO_TABLE:
        return NoTable(
            f"the registry's table does not exist {facts}; check the URL and the region, "
            "or run: logstore init"
        )
    if status >= 500:
        return lost(facts, writes=writes)
    return Invalid(f"the registry refuses the request {facts}")


def lost(facts: str, *, writes: bool) -> LogstoreError:
    """No answer that settles anything."""
    if writes:
        return OutcomeUnknown(f"the registry may have changed {facts}")
    return Retryable(f"the registry cannot be read {facts}")
