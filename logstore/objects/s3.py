"""An object store in an S3 bucket. The only module that names obstore.

One call is one request: obstore's own retries are off, since after a lost answer they report
"already exists" for one's own write (docs/decisions/0005-obstore-and-own-retries.md). A create is
one PUT with `If-None-Match: *` whatever its size, never a multipart upload. What answers mean:
`objects.s3_answers`.

Deliberately missing: directory buckets (they list in no order), and requester-pays buckets.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import obstore
import obstore.exceptions
import obstore.store

from logstore.errors import Denied, Invalid, LogstoreError, Refused, Throttled
from logstore.objects.credentials import AwsCredentials, configured_region
from logstore.objects.keys import check_key, check_prefix, check_range, is_key
from logstore.objects.s3_answers import RANGE_NOT_SATISFIABLE, Doing, answer_of, error_of
from logstore.objects.s3_options import S3Location, S3Options
from logstore.ports.clock import Clock
from logstore.ports.objects import Buffer, ObjectInfo

CALLS_MAX = 1000

_CONNECT_TIMEOUT = timedelta(seconds=5)
_DEFAULT_REGION = "us-east-1"
_POSITION_MAX = 2**62  # S3's objects end far below; what is added to it stays in 64 bits
_CHUNK_BYTES_MIN = 32 * 1024  # smaller chunks cost more to send one by one than to copy together
_LIST_PAGE = 1000

# obstore hands results from a thread of its own to the event loop. If the interpreter ends while
# that thread still lets go of its last Python object, the process aborts.
_SETTLE_S = 0.1

_FAILURES = (obstore.exceptions.BaseError, FileNotFoundError)


class S3BlockingStore:
    """A `BlockingObjectStore` on a bucket: Spark workers and tools. For any number of threads."""

    def __init__(self, location: S3Location, options: S3Options) -> None:
        self._bucket = _Bucket(location, options)

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        check_key(key)
        with self._bucket.calling("create", key):
            obstore.put(
                self._bucket.client, key, _payload(parts), mode="create", use_multipart=False
            )

    def get(self, key: str) -> bytes:
        check_key(key)
        with self._bucket.calling("get", key):
            return obstore.get(self._bucket.client, key).bytes().to_bytes()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        asked = _range(key, start, length)
        try:
            with self._bucket.calling("get", key):
                body = obstore.get_range(self._bucket.client, key, start=asked[0], length=asked[1])
        except _RangeNotSatisfiable:
            return b""
        return body.to_bytes() if length else b""

    def delete(self, key: str) -> None:
        check_key(key)
        with self._bucket.calling("delete", key):
            obstore.delete(self._bucket.client, key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        check_prefix(prefix)
        return self._list(prefix)

    def close(self) -> None:
        """Connections close when the store is forgotten."""

    def _list(self, prefix: str) -> Iterator[ObjectInfo]:
        pages = iter(self._bucket.pages(prefix))
        while True:
            with self._bucket.calling("list", prefix):
                page = next(pages, None)
            if page is None:
                return
            yield from _infos(page, prefix)


class S3Store:
    """An `ObjectStore` on a bucket: brokers. At most `CALLS_MAX` calls at a time."""

    def __init__(self, location: S3Location, options: S3Options, clock: Clock) -> None:
        self._bucket = _Bucket(location, options)
        self._clock = clock
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        check_key(key)
        with self._calling("create", key):
            await obstore.put_async(
                self._bucket.client, key, _payload(parts), mode="create", use_multipart=False
            )

    async def get(self, key: str) -> memoryview:
        check_key(key)
        with self._calling("get", key):
            answer = await obstore.get_async(self._bucket.client, key)
            # A copy of 8 MiB would hold the event loop for 5 ms.
            return memoryview(await answer.bytes_async())

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        asked = _range(key, start, length)
        try:
            with self._calling("get", key):
                body = await obstore.get_range_async(
                    self._bucket.client, key, start=asked[0], length=asked[1]
                )
        except _RangeNotSatisfiable:
            return b""
        return body.to_bytes() if length else b""

    async def delete(self, key: str) -> None:
        check_key(key)
        with self._calling("delete", key):
            await obstore.delete_async(self._bucket.client, key)

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        check_prefix(prefix)
        pages = aiter(self._bucket.pages(prefix))
        while True:
            with self._calling("list", prefix):
                page = await anext(pages, None)
            if page is None:
                return
            for info in _infos(page, prefix):
                yield info

    async def close(self) -> None:
        """Waits for the calls under way, and until the client's threads let go of the last one."""
        self._closed = True
        await self._idle.wait()
        await self._clock.sleep_s(_SETTLE_S)

    @contextmanager
    def _calling(self, doing: Doing, key: str) -> Iterator[None]:
        if self._closed:
            raise Invalid("the store is closed")
        if self._calls >= CALLS_MAX:
            raise Throttled(f"too many calls are under way: calls={self._calls} {doing} key={key}")
        self._calls += 1
        self._idle.clear()
        try:
            with self._bucket.calling(doing, key):
                yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()


class _RangeNotSatisfiable(LogstoreError):
    """The range begins where the object ends, or after it."""


class _Bucket:
    """obstore's client of one bucket; translates its errors."""

    def __init__(self, location: S3Location, options: S3Options) -> None:
        self._location = location
        self._credentials = AwsCredentials(options.profile)
        self.client = _client(location, options, self._credentials)

    @contextmanager
    def calling(self, doing: Doing, key: str) -> Iterator[None]:
        try:
            yield
        except _FAILURES as failure:
            answer = answer_of(str(failure))
        else:
            return
        # From None, so that no traceback shows the failure: its text can hold a token.
        if doing == "get" and answer.status == RANGE_NOT_SATISFIABLE:
            raise _RangeNotSatisfiable from None
        if doing == "delete" and answer.code == "NoSuchKey":
            return
        error = error_of(answer, doing, key, self._location)
        if isinstance(error, Denied):
            self._credentials.look_again()
        try:
            raise error from None
        finally:
            del error  # it bears this frame

    def pages(self, prefix: str) -> "obstore.ListStream[Sequence[obstore.ObjectMeta]]":
        """Pages of keys in the folder of `prefix`; the client lists by whole components only."""
        folder = prefix.rpartition("/")[0]
        return obstore.list(self.client, folder or None, chunk_size=_LIST_PAGE)


def _client(
    location: S3Location, options: S3Options, credentials: AwsCredentials
) -> obstore.store.S3Store:
    timeout = timedelta(milliseconds=options.timeout_ms)
    region = options.region
    if region is None and options.endpoint is None:
        region = configured_region(options.profile)
    endpoint = options.endpoint_of(location.bucket)
    # The client reads AWS_* variables too; what is said here counts more.
    config: obstore.store.S3Config = {
        "region": region or _DEFAULT_REGION,
        "virtual_hosted_style_request": not options.uses_path_style(location.bucket),
        "unsigned_payload": not options.signs_payload,
        "conditional_put": "etag",
        "disable_bulk_delete": True,
        "skip_signature": False,
    }
    if endpoint is not None:
        config["endpoint"] = endpoint
        config["aws_endpoint_url_s3"] = endpoint
    try:
        return obstore.store.S3Store(
            location.bucket,
            prefix=location.prefix or None,
            config=config,
            client_options={
                "allow_http": options.is_plain_http,
                "connect_timeout": min(_CONNECT_TIMEOUT, timeout),
                "timeout": timeout,
                "user_agent": "logstore",
            },
            retry_config={"max_retries": 0},
            credential_provider=credentials,
        )
    except (*_FAILURES, ValueError) as failure:
        why = " ".join(str(failure).partition("\n\nDebug source:")[0].split())
    raise Refused(f"cannot set up the S3 client: {location.url} {why}; check the AWS environment")


def _payload(parts: Sequence[Buffer]) -> Buffer | Sequence[Buffer]:
    """`parts` as they are if they are large, else in one chunk."""
    if len(parts) == 1:
        return parts[0]
    size_bytes = sum(memoryview(part).nbytes for part in parts)
    if size_bytes < len(parts) * _CHUNK_BYTES_MIN:
        return b"".join(parts)
    return parts


def _range(key: str, start: int, length: int) -> tuple[int, int]:
    """The range to request: at least one byte, since S3 has no empty ranges."""
    check_key(key)
    check_range(start, length)
    return min(start, _POSITION_MAX), min(max(length, 1), _POSITION_MAX)


def _infos(page: "Sequence[obstore.ObjectMeta]", prefix: str) -> Iterator[ObjectInfo]:
    for item in page:
        key = item["path"]
        if key.startswith(prefix) and is_key(key):  # others were put by others
            modified_ms = item["last_modified"].timestamp() * 1000
            yield ObjectInfo(key, item["size"], int(modified_ms))
