"""Versions of a bucket: whether it keeps any, and which deleted objects can be restored.

A DELETE in a bucket with versions adds a delete marker; the object stays, as a noncurrent version,
until a lifecycle rule removes it. Each repeated DELETE adds one more marker. To take an object back
is to GET that version and to create the key again, on condition that no object has it: to S3 a
marker is no object. (To remove markers needs s3:DeleteObjectVersion, which can destroy versions.)
Some servers refuse to create over a marker (versitygw 1.8.0); there the markers are removed.

Needs s3:GetBucketVersioning, s3:ListBucketVersions and s3:GetObjectVersion. One attempt each, as
all stores make. The S3 client of the data path cannot list versions: this is botocore's.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from logstore.errors import AlreadyExists
from logstore.objects.credentials import open_session
from logstore.objects.keys import check_prefix, is_key
from logstore.objects.s3_answers import Answer, Doing, error_of
from logstore.objects.s3_options import S3Location, S3Options
from logstore.ports.objects import BlockingObjectStore
from logstore.ports.trash import DeletedObject

_DEFAULT_REGION = "us-east-1"
_CONNECT_TIMEOUT_S = 3.0


class S3Versions:
    """The `Trash` of a log in a bucket; `store` is the log's, which creates what comes back."""

    def __init__(
        self, location: S3Location, options: S3Options, store: BlockingObjectStore
    ) -> None:
        self._location = location
        self._options = options
        self._store = store

    def are_kept(self) -> bool:
        """Whether the bucket keeps versions of objects deleted now."""
        with self._calling("list", ""):
            answer = self._client.get_bucket_versioning(Bucket=self._location.bucket)
        return str(answer.get("Status", "")) == "Enabled"

    def deleted(self, prefix: str) -> Iterator[DeletedObject]:
        """As `Trash.deleted`: everything that the bucket still has, however old."""
        check_prefix(prefix)
        versions: dict[str, list[Mapping[str, Any]]] = {}
        markers: dict[str, list[int]] = {}
        there: set[str] = set()
        for page in self._pages(prefix):
            for version in page.get("Versions", ()):
                if version["IsLatest"]:
                    there.add(version["Key"])
                versions.setdefault(version["Key"], []).append(version)
            for marker in page.get("DeleteMarkers", ()):
                markers.setdefault(marker["Key"], []).append(_ms(marker["LastModified"]))
        for whole_key in sorted(versions.keys() - there):
            key = whole_key[len(self._front) :]
            if is_key(key):
                # S3 tells whole seconds, and each key with its newest version first.
                for version in reversed(versions[whole_key]):
                    yield _deleted(key, version, markers.get(whole_key, ()))

    def undelete(self, deleted: DeletedObject) -> bool:
        with self._calling("get", deleted.key):
            answer = self._client.get_object(
                Bucket=self._location.bucket,
                Key=self._front + deleted.key,
                VersionId=deleted.place,
            )
            data: bytes = answer["Body"].read()
        try:
            self._store.create(deleted.key, [data])
        except AlreadyExists:
            return self._unmark(deleted)
        return True

    def _unmark(self, deleted: DeletedObject) -> bool:
        """Removes the markers over a version, unless an object or another version is there."""
        key, markers = self._front + deleted.key, []
        for page in self._pages(deleted.key):
            if any(one["Key"] == key and one["IsLatest"] for one in page.get("Versions", ())):
                return False
            newest = next((one for one in page.get("Versions", ()) if one["Key"] == key), None)
            if newest is not None and newest["VersionId"] != deleted.place:
                return False
            markers += [one for one in page.get("DeleteMarkers", ()) if one["Key"] == key]
        for marker in markers:
            if _ms(marker["LastModified"]) >= deleted.modified_ms:
                with self._calling("delete", deleted.key):
                    self._client.delete_object(
                        Bucket=self._location.bucket, Key=key, VersionId=marker["VersionId"]
                    )
        return bool(markers)

    @property
    def _front(self) -> str:
        return f"{self._location.prefix}/" if self._location.prefix else ""

    def _pages(self, prefix: str) -> Iterator[Mapping[str, Any]]:
        paginator = self._client.get_paginator("list_object_versions")
        pages = iter(paginator.paginate(Bucket=self._location.bucket, Prefix=self._front + prefix))
        while True:
            with self._calling("list", prefix):
                page = next(pages, None)
            if page is None:
                return
            yield page

    @cached_property
    def _client(self) -> Any:
        options = self._options
        style = "path" if options.uses_path_style(self._location.bucket) else "virtual"
        seconds = options.timeout_ms / 1000
        return open_session(options.profile).create_client(
            "s3",
            region_name=options.region or (_DEFAULT_REGION if options.endpoint else None),
            endpoint_url=options.endpoint,
            config=Config(
                connect_timeout=min(_CONNECT_TIMEOUT_S, seconds),
                read_timeout=seconds,
                retries={"mode": "standard", "total_max_attempts": 1},
                s3={"addressing_style": style},
            ),
        )

    @contextmanager
    def _calling(self, doing: Doing, key: str) -> Iterator[None]:
        try:
            yield
        except ClientError as failure:
            said = failure.response.get("Error", {})
            status = failure.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            code = "NoSuchKey" if said.get("Code") == "NoSuchVersion" else str(said.get("Code", ""))
            answer = Answer(status, code, str(said.get("Message", "")))
        except BotoCoreError as failure:
            answer = Answer(None, "", type(failure).__name__)
        else:
            return
        # From None: the text of the failure can hold a token.
        raise error_of(answer, doing, key, self._location) from None


def _deleted(key: str, version: Mapping[str, Any], markers: Iterator[int] | Any) -> DeletedObject:
    """It went when the first marker after it was put, or when another version was put over it."""
    modified_ms = _ms(version["LastModified"])
    after = [marker for marker in markers if marker >= modified_ms]
    deleted_ms = min(after, default=modified_ms)
    return DeletedObject(key, version["Size"], modified_ms, deleted_ms, version["VersionId"])


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
