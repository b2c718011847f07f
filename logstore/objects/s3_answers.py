"""Translates S3 answers: an error's status and code → the errors of the port.

    answer                                          create            get             delete, list
    412, 409                                        AlreadyExists     Retryable       Retryable
    404 NoSuchKey                                   OutcomeUnknown    NotFound        NotFound
    404 NoSuchBucket, a redirect, a foreign region  Refused           Refused         Refused
    501                                             Refused           as other 5xx    as other 5xx
    401, 403, an expired or bad token               Denied            Denied          Denied
    429, 503, SlowDown                              Throttled         Throttled       Throttled
    507, a quota is used up                         NoRoom            Retryable       NoRoom
    no connection was made                          Retryable         Retryable       Retryable
    other 5xx, reset, time-out, broken answer       OutcomeUnknown    Retryable       OutcomeUnknown
    other 4xx                                       Retryable         Retryable       Retryable

A 409 is a lost race to some stores and none at all to AWS (ConditionalRequestConflict), a 503 may
come after the object was stored: who creates looks, or sends the same bytes again. S3 answers the
delete of an absent key with success, so a 404 to it is that of another server. The body of an
error can hold keys and tokens (ExpiredToken shows its token), so of it only code and message are
ever repeated. Codes: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
"""

import re
from dataclasses import dataclass
from typing import Literal

from logstore.errors import (
    AlreadyExists,
    Denied,
    LogstoreError,
    NoRoom,
    NotFound,
    OutcomeUnknown,
    Refused,
    Retryable,
    Throttled,
)
from logstore.masked import masked
from logstore.objects.s3_options import S3Location

Doing = Literal["create", "get", "delete", "list"]

RANGE_NOT_SATISFIABLE = 416
MESSAGE_MAX = 300
NO_CREDENTIALS = "NoCredentials"  # not S3's: the request was never signed, so never sent

_PERMISSIONS: dict[Doing, str] = {
    "create": "s3:PutObject",
    "get": "s3:GetObject, or s3:ListBucket if the object is absent: S3 says 404 only with it",
    "delete": "s3:DeleteObject",
    "list": "s3:ListBucket",
}
_DENIED = {
    "RequestTimeTooSkewed": "this machine's clock is more than 15 minutes off; set it (NTP)",
    "RequestExpired": "the request took too long or this machine's clock is off; set it (NTP)",
    "ExpiredToken": "the credentials have expired; renew them (aws sso login, or a new session)",
    "ExpiredTokenException": "the credentials have expired; renew them (aws sso login)",
    "TokenRefreshRequired": "the credentials have expired; renew them (aws sso login)",
    "InvalidToken": "the session token is not valid; renew the credentials",
    "InvalidAccessKeyId": "no such access key; check which credentials this process finds",
    "SignatureDoesNotMatch": "the secret key is wrong, or a proxy changes requests on their way",
    "InvalidObjectState": "the object was moved to an archive tier; restore it, and end the "
    "bucket's lifecycle rule that does this",
}
_FIND_CREDENTIALS = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile (storage.profile), run "
    "aws sso login, or give this machine a role"
)
_FOREIGN_REGION = frozenset(
    {
        "AuthorizationHeaderMalformed",
        "PermanentRedirect",
        "TemporaryRedirect",
        "IllegalLocationConstraintException",
    }
)
_SLOW_DOWN = frozenset({"SlowDown", "ServiceUnavailable", "Throttling", "RequestLimitExceeded"})
_NO_ROOM = frozenset({"XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "QuotaExceeded"})
_UNCLEAR = frozenset({"RequestTimeout", "InternalError", "OperationAborted"})


@dataclass(frozen=True, slots=True)
class Answer:
    """An error as S3 gave it. `status` is None where there was no answer."""

    status: int | None
    code: str
    message: str
    reached: bool = True
    """False: no connection was made, so the request cannot have been seen."""
    redirected: bool = False


def error_of(answer: Answer, doing: Doing, key: str, location: S3Location) -> LogstoreError:
    """The error to raise for `answer`."""
    where = f"bucket={location.bucket} key={_joined(location, key)}"
    facts = where
    if answer.status is not None:
        facts += f" status={answer.status}" + (f" code={answer.code}" if answer.code else "")
    for decide in (_taken, _setting, _full, _denied, _passing):
        if (error := decide(answer, doing, facts)) is not None:
            return error
    if not answer.reached:
        return Retryable(f"cannot reach the store: {where} {answer.message}")
    happened = f"S3 {doing} failed: {facts} {answer.message}"
    if answer.status is not None and answer.status < 500 and answer.code not in _UNCLEAR:
        return Retryable(happened)
    return Retryable(happened) if doing == "get" else OutcomeUnknown(happened)


def _taken(answer: Answer, doing: Doing, facts: str) -> LogstoreError | None:
    if doing == "create" and answer.status in (409, 412):
        return AlreadyExists(f"object exists: {facts}")
    if answer.code == "NoSuchKey" and answer.status == 404:
        if doing == "create":
            return OutcomeUnknown(f"S3 create was answered as a read: {facts}")
        return NotFound(f"no object: {facts}")
    return None


def _setting(answer: Answer, doing: Doing, facts: str) -> LogstoreError | None:
    if answer.code == "NoSuchBucket":
        return Refused(f"no such bucket: {facts}; check the URL, storage.endpoint and the region")
    if answer.redirected or answer.status == 301 or answer.code in _FOREIGN_REGION:
        return Refused(
            f"the bucket is in another region: {facts} {answer.message}; set storage.region"
        )
    if doing == "create" and answer.status == 501:
        return Refused(f"the store does not support conditional writes: {facts}; use another store")
    return None


def _full(answer: Answer, doing: Doing, facts: str) -> LogstoreError | None:
    """Of servers with disks: AWS has neither limit."""
    if doing == "get" or not (answer.status == 507 or answer.code in _NO_ROOM):
        return None
    return NoRoom(
        f"no room to {doing}: {facts} {answer.message}; free some space of the store, or raise its "
        "quota"
    )


def _denied(answer: Answer, doing: Doing, facts: str) -> LogstoreError | None:
    if answer.code == NO_CREDENTIALS:
        return Denied(f"no AWS credentials: {facts} {answer.message}; {_FIND_CREDENTIALS}")
    advice = _DENIED.get(answer.code)
    if advice is None and answer.status not in (401, 403):
        return None
    if advice is None:
        advice = f"allow this identity {_PERMISSIONS[doing]}"
    return Denied(f"S3 denied a {doing}: {facts} {answer.message}; {advice}")


def _passing(answer: Answer, doing: Doing, facts: str) -> LogstoreError | None:
    if answer.status in (429, 503) or answer.code in _SLOW_DOWN:
        return Throttled(f"S3 throttles requests: {facts} {doing} {answer.message}")
    return None


_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_CODE = re.compile(r"<Code>\s*([A-Za-z0-9.]{1,80})\s*</Code>")
_MESSAGE = re.compile(r"<Message>(.*?)</Message>", re.DOTALL)
_REDIRECT = "Received redirect without LOCATION"
_NOT_CONNECTED = re.compile(r"client::legacy::Error\(\s*Connect,")  # a reset says SendRequest
_TIMED_OUT = "kind: Timeout,"
_NOT_SIGNED = "External AWS credential provider: "
_PLACE = re.compile(r" for path \S+| performing \S+ \S+ in \S+")


def answer_of(text: str) -> Answer:
    """Reads the text of an error of obstore 0.12, whose exceptions have neither status nor code."""
    said, _, source = masked(text).partition("\n\nDebug source:")
    status, code, message = (pattern.search(said) for pattern in (_STATUS, _CODE, _MESSAGE))
    if _NOT_SIGNED in said:
        return Answer(None, NO_CREDENTIALS, said.rpartition(_NOT_SIGNED)[2][:MESSAGE_MAX], False)
    if status is None:
        reached = _NOT_CONNECTED.search(source) is None
        return Answer(None, "", _cause(said, source), reached, _REDIRECT in said)
    return Answer(
        int(status[1]),
        code[1] if code else "",
        " ".join(message[1].split())[:MESSAGE_MAX] if message else "",
    )


_CAUSES = re.compile(r'(?:message|error): (?:"([^"]{1,200})"|([A-Z]\w+\(\s*\w+))')


def _cause(said: str, source: str) -> str:
    """Why there was no answer, in a few words."""
    if _TIMED_OUT in source:
        return "no answer in time (storage.timeout.ms)"
    if causes := _CAUSES.findall(source):
        return " ".join("".join(causes[-1]).split())
    return " ".join(_PLACE.sub("", said).split())[:MESSAGE_MAX]


def _joined(location: S3Location, key: str) -> str:
    return f"{location.prefix}/{key}" if location.prefix else key
