"""Where an S3 store is and how it is spoken to: its URL, and the `storage.*` settings.

    storage.endpoint         URL of an S3 server that is not AWS; else AWS_ENDPOINT_URL_S3,
                             AWS_ENDPOINT_URL, AWS_ENDPOINT
    storage.region           region of the bucket; else AWS_REGION, AWS_DEFAULT_REGION, or
                             the profile's
    storage.profile          named profile of ~/.aws, before keys in the environment; else what
                             `objects.credentials` finds
    storage.path.style       true: http://host/bucket/key, false: http://bucket.host/key; true
                             for an endpoint of one's own, and for buckets with dots, whose names
                             no certificate covers
    storage.signed.payload   hash every body into its signature: 3-5 ms of CPU per 8 MiB; true over
                             plain http, where nothing else protects it on its way, false over https
    storage.timeout.ms       how long one attempt may take, answer included (20000). Shorter finds a
                             hanging request sooner and repeats slow ones in vain
    storage.dynamodb.endpoint   URL of a DynamoDB server that is not AWS, believed if cluster.json
                             names the same (`stores.trust`); else AWS_ENDPOINT_URL_DYNAMODB,
                             AWS_ENDPOINT_URL

Keys and tokens are never settings: `objects.credentials` finds them.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from logstore.errors import Invalid
from logstore.objects.keys import check_key

TIMEOUT_MS = 20_000
TIMEOUT_MS_RANGE = (100, 600_000)

_PREFIX = "storage."
_NAMES = (
    "storage.endpoint",
    "storage.region",
    "storage.profile",
    "storage.path.style",
    "storage.signed.payload",
    "storage.timeout.ms",
    "storage.dynamodb.endpoint",
)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_DIRECTORY_BUCKET = "--x-s3"


@dataclass(frozen=True, slots=True)
class S3Location:
    """A bucket, and the prefix of all keys in it: "" or without slashes at its ends."""

    bucket: str
    prefix: str = ""

    def __post_init__(self) -> None:
        if _BUCKET.fullmatch(self.bucket) is None:
            raise Invalid(
                f"not a bucket name: bucket={self.bucket!r}; S3 takes 3 to 63 lower-case letters, "
                "digits, dots and hyphens"
            )
        if self.bucket.endswith(_DIRECTORY_BUCKET):
            raise Invalid(
                f"directory buckets are not supported: bucket={self.bucket}; they list keys in no "
                "order, use a general purpose bucket"
            )
        if self.prefix:
            check_key(self.prefix)

    @classmethod
    def of(cls, url: str) -> "S3Location":
        """From s3://BUCKET or s3://BUCKET/PREFIX, s3a:// alike. Raises `Invalid`."""
        parts = urlsplit(url)
        if parts.scheme not in ("s3", "s3a"):
            raise Invalid(f"not an S3 URL: url={url}; write s3://BUCKET/PREFIX")
        if parts.query or parts.fragment or "@" in parts.netloc:
            raise Invalid(
                "an S3 URL holds a bucket and a prefix, no keys and no settings: "
                f"url=s3://{parts.netloc.rpartition('@')[2]}{parts.path}; "
                "credentials come from the AWS environment, the rest from storage.* settings"
            )
        return cls(parts.netloc, parts.path.strip("/"))

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}" if self.prefix else f"s3://{self.bucket}"


@dataclass(frozen=True, slots=True)
class S3Options:
    """How to reach S3. `None` leaves the choice to AWS's own defaults."""

    endpoint: str | None = None
    region: str | None = None
    profile: str | None = None
    path_style: bool | None = None
    signed_payload: bool | None = None
    timeout_ms: int = TIMEOUT_MS
    dynamodb_endpoint: str | None = None

    def __post_init__(self) -> None:
        if self.endpoint is not None:
            _check_endpoint("storage.endpoint", self.endpoint)
        if self.dynamodb_endpoint is not None:
            _check_endpoint("storage.dynamodb.endpoint", self.dynamodb_endpoint)
        least, most = TIMEOUT_MS_RANGE
        if not least <= self.timeout_ms <= most:
            raise Invalid(
                f"storage.timeout.ms is out of range: {self.timeout_ms}; give {least} to {most}"
            )

    @classmethod
    def of(
        cls, settings: Mapping[str, str], environment: Mapping[str, str] = os.environ
    ) -> "S3Options":
        """From `storage.*` settings; others are not looked at. Raises `Invalid`."""
        given = {name: value for name, value in settings.items() if name.startswith(_PREFIX)}
        if unknown := sorted(set(given) - set(_NAMES)):
            raise Invalid(f"unknown setting: {unknown[0]}; known: {', '.join(_NAMES)}")

        def first(name: str, *variables: str) -> str | None:
            values = [given.get(name), *map(environment.get, variables)]
            return next((value.strip() for value in values if value and value.strip()), None)

        return cls(
            endpoint=first(
                "storage.endpoint", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"
            ),
            region=first("storage.region", "AWS_REGION", "AWS_DEFAULT_REGION"),
            profile=first("storage.profile"),
            path_style=_boolean("storage.path.style", first("storage.path.style")),
            signed_payload=_boolean("storage.signed.payload", first("storage.signed.payload")),
            timeout_ms=_milliseconds(first("storage.timeout.ms")),
            dynamodb_endpoint=first(
                "storage.dynamodb.endpoint", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL"
            ),
        )

    @property
    def is_plain_http(self) -> bool:
        return self.endpoint is not None and self.endpoint.startswith("http://")

    @property
    def signs_payload(self) -> bool:
        return self.is_plain_http if self.signed_payload is None else self.signed_payload

    def uses_path_style(self, bucket: str) -> bool:
        if self.path_style is not None:
            return self.path_style
        return self.endpoint is not None or "." in bucket

    def endpoint_of(self, bucket: str) -> str | None:
        """The endpoint with the bucket's name in it, unless that goes into the path."""
        if self.endpoint is None or self.uses_path_style(bucket):
            return self.endpoint
        scheme, _, host = self.endpoint.partition("://")
        return f"{scheme}://{bucket}.{host}"


def _check_endpoint(name: str, endpoint: str) -> None:
    """Raises `Invalid`, whose text has no part of what may be a password."""
    if "@" in endpoint:
        raise Invalid(
            f"{name} holds credentials; write it without them, and give them by the AWS environment"
        )
    try:
        parts = urlsplit(endpoint)
        parts.port  # noqa: B018 - raises for what is no port
    except ValueError as error:
        raise Invalid(f"{name} is not a URL: {error}; write https://HOST[:PORT]") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise Invalid(f"{name} is not the URL of a server: {endpoint}; write https://HOST[:PORT]")


def _boolean(name: str, value: str | None) -> bool | None:
    if value is None:
        return None
    if value.lower() not in ("true", "false"):
        raise Invalid(f"{name} is neither true nor false: {value!r}")
    return value.lower() == "true"


def _milliseconds(value: str | None) -> int:
    if value is None:
        return TIMEOUT_MS
    if not value.isascii() or not value.isdigit():
        raise Invalid(f"storage.timeout.ms is not a number of milliseconds: {value!r}; write 30000")
    return int(value)
