"""What each answer of S3 becomes, through the real client, blocking and asynchronous alike."""

import asyncio
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

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
from logstore.objects.s3 import S3BlockingStore, S3Store
from logstore.objects.s3_options import S3Location, S3Options
from logstore.ports.clock import SystemClock
from tests.servers.locked_moto import aws_environment
from tests.servers.saying import Saying, saying_server

BUCKET = S3Location("bucket", "p")


class HastyClock(SystemClock):
    async def sleep_s(self, seconds: float) -> None:
        """Closing waits for the end of the process, which is far."""


Kind = type[LogstoreError]
Calls = dict[str, Callable[[], Any]]

ANSWERS: list[tuple[int, str, Kind | None, Kind | None, Kind | None]] = [
    # status, code, and what it is to create, get and delete
    (412, "PreconditionFailed", AlreadyExists, Retryable, Retryable),
    (409, "ConditionalRequestConflict", AlreadyExists, Retryable, Retryable),
    (404, "NoSuchKey", OutcomeUnknown, NotFound, None),
    (404, "", Retryable, Retryable, Retryable),
    (404, "NoSuchBucket", Refused, Refused, Refused),
    (301, "PermanentRedirect", Refused, Refused, Refused),
    (400, "AuthorizationHeaderMalformed", Refused, Refused, Refused),
    (501, "NotImplemented", Refused, Retryable, OutcomeUnknown),
    (403, "AccessDenied", Denied, Denied, Denied),
    (403, "RequestTimeTooSkewed", Denied, Denied, Denied),
    (403, "", Denied, Denied, Denied),
    (401, "Unauthorized", Denied, Denied, Denied),
    (400, "ExpiredToken", Denied, Denied, Denied),
    (400, "InvalidToken", Denied, Denied, Denied),
    (503, "SlowDown", Throttled, Throttled, Throttled),
    (503, "", Throttled, Throttled, Throttled),
    (429, "TooManyRequests", Throttled, Throttled, Throttled),
    (507, "XMinioStorageFull", NoRoom, Retryable, NoRoom),
    (403, "QuotaExceeded", NoRoom, Denied, NoRoom),
    (500, "InternalError", OutcomeUnknown, Retryable, OutcomeUnknown),
    (502, "", OutcomeUnknown, Retryable, OutcomeUnknown),
    (400, "RequestTimeout", OutcomeUnknown, Retryable, OutcomeUnknown),
    (400, "BadDigest", Retryable, Retryable, Retryable),
]


@pytest.fixture(scope="module")
def saying() -> Iterator[Saying]:
    with aws_environment(), saying_server() as server:
        yield server


@pytest.fixture(params=["blocking", "asynchronous"])
def calls(request: pytest.FixtureRequest, saying: Saying) -> Calls:
    """One call of each kind; the asynchronous ones open a store each."""
    options = S3Options(endpoint=saying.endpoint)
    blocking = S3BlockingStore(BUCKET, options)
    if request.param == "blocking":
        return {
            "create": lambda: blocking.create("k", [b"x"]),
            "get": lambda: blocking.get("k"),
            "get_range": lambda: blocking.get_range("k", 0, 5),
            "delete": lambda: blocking.delete("k"),
            "list": lambda: list(blocking.list("k/")),
        }

    async def run(call: Callable[[S3Store], Any]) -> Any:
        store = S3Store(BUCKET, options, HastyClock())
        try:
            return await call(store)
        finally:
            await store.close()

    async def listed(store: S3Store) -> list[Any]:
        return [info async for info in store.list("k/")]

    return {
        "create": lambda: asyncio.run(run(lambda store: store.create("k", [b"x"]))),
        "get": lambda: asyncio.run(run(lambda store: store.get("k"))),
        "get_range": lambda: asyncio.run(run(lambda store: store.get_range("k", 0, 5))),
        "delete": lambda: asyncio.run(run(lambda store: store.delete("k"))),
        "list": lambda: asyncio.run(run(listed)),
    }


def kind_of(call: Callable[[], Any]) -> Kind | None:
    try:
        call()
    except LogstoreError as error:
        return type(error)
    return None


@pytest.mark.parametrize(("status", "code", "create", "get", "delete"), ANSWERS)
def test_an_answer_is_sorted_by_what_the_caller_does(
    saying: Saying,
    calls: Calls,
    status: int,
    code: str,
    create: Kind | None,
    get: Kind | None,
    delete: Kind | None,
) -> None:
    saying.say(status, code)
    assert kind_of(calls["create"]) is create
    assert kind_of(calls["get"]) is get
    assert kind_of(calls["get_range"]) is get
    assert kind_of(calls["delete"]) is delete
    if code not in ("NoSuchKey",):
        assert kind_of(calls["list"]) is delete


def test_a_create_without_a_useful_answer_may_have_happened(saying: Saying, calls: Calls) -> None:
    saying.say(200)  # without an ETag
    assert kind_of(calls["create"]) is OutcomeUnknown


@pytest.mark.parametrize(
    ("status", "code", "doing", "advice"),
    [
        (403, "AccessDenied", "create", "s3:PutObject"),
        (403, "AccessDenied", "get", "s3:ListBucket if the object is absent"),
        (403, "AccessDenied", "delete", "s3:DeleteObject"),
        (403, "AccessDenied", "list", "s3:ListBucket"),
        (403, "RequestTimeTooSkewed", "get", "clock is more than 15 minutes off"),
        (403, "InvalidAccessKeyId", "get", "no such access key"),
        (403, "SignatureDoesNotMatch", "get", "secret key is wrong"),
        (400, "ExpiredToken", "create", "aws sso login"),
        (404, "NoSuchBucket", "get", "no such bucket: bucket=bucket"),
        (301, "PermanentRedirect", "get", "set storage.region"),
    ],
)
def test_an_error_says_in_one_line_what_to_do(
    saying: Saying, calls: Calls, status: int, code: str, doing: str, advice: str
) -> None:
    saying.say(status, code, message="of two\n lines")
    with pytest.raises(LogstoreError) as raised:
        calls[doing]()
    assert advice in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_token_in_an_answer_shows_nowhere(saying: Saying, calls: Calls) -> None:
    saying.say(400, "ExpiredToken", more="<Token-0>s3cr3t</Token-0>")
    for call in calls.values():
        with pytest.raises(Denied) as raised:
            call()
        assert "s3cr3t" not in "".join(traceback.format_exception(raised.value))


def test_no_connection_means_that_nothing_happened() -> None:
    with aws_environment(), saying_server() as gone:
        store = S3BlockingStore(BUCKET, S3Options(endpoint=gone.endpoint))
    with aws_environment(), pytest.raises(Retryable, match="cannot reach the store"):
        store.create("k", [b"x"])


def test_a_create_is_one_conditional_put_whatever_its_size(saying: Saying) -> None:
    with aws_environment():
        saying.say(412, "PreconditionFailed")
        saying.requests.clear()
        store = S3BlockingStore(BUCKET, S3Options(endpoint=saying.endpoint))
        with pytest.raises(AlreadyExists):
            store.create("k", [b"x" * 9_000_000, b"y" * 9_000_000])
    [(method, path, headers)] = saying.requests
    assert (method, path) == ("PUT", "/bucket/p/k")
    assert headers["if-none-match"] == "*"
    assert headers["content-length"] == "18000000"


@pytest.mark.parametrize(("signed", "hashed"), [("true", True), ("false", False)])
def test_a_body_is_hashed_into_the_signature_only_if_asked(
    saying: Saying, signed: str, hashed: bool
) -> None:
    with aws_environment():
        saying.say(412, "PreconditionFailed")
        saying.requests.clear()
        settings = {"storage.endpoint": saying.endpoint, "storage.signed.payload": signed}
        with pytest.raises(AlreadyExists):
            S3BlockingStore(BUCKET, S3Options.of(settings)).create("k", [b"x"])
    assert (saying.requests[0][2]["x-amz-content-sha256"] != "UNSIGNED-PAYLOAD") is hashed


def test_settings_count_more_than_the_client_s_own_environment(saying: Saying) -> None:
    with aws_environment(
        {
            "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1",
            "AWS_CONDITIONAL_PUT": "disabled",
            "AWS_SKIP_SIGNATURE": "true",
        }
    ):
        saying.say(404, "NoSuchKey")
        saying.requests.clear()
        store = S3BlockingStore(BUCKET, S3Options.of({"storage.endpoint": saying.endpoint}))
        with pytest.raises(OutcomeUnknown):
            store.create("k", [b"x"])
    headers = saying.requests[0][2]
    assert headers["if-none-match"] == "*"
    assert "authorization" in headers
