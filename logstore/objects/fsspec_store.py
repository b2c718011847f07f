"""A read-only store on any URL that fsspec opens: an eye on a log that shares no code with our own.

For inspection: file://, s3:// (by s3fs), memory:// and whatever else has an fsspec file system. It
puts and deletes nothing, since none of fsspec's creates can be trusted to be atomic.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from logstore.errors import Denied, Invalid, NotFound, Refused, Retryable
from logstore.objects.s3_options import S3Options
from logstore.ports.objects import Buffer, ObjectInfo

_READ_ONLY = "a log opened through fsspec is only read"


class FsspecStore:
    """A `BlockingObjectStore` that refuses to write. `options` are used for s3:// alone."""

    def __init__(self, url: str, options: S3Options) -> None:
        """Raises `Invalid` for a URL that no installed file system serves."""
        try:
            from fsspec.core import url_to_fs  # optional, and slow to import
        except ModuleNotFoundError as error:
            raise Refused("fsspec is not installed; pip install 'pyspark-logstore[s3]'") from error
        try:
            self._files, root = url_to_fs(url, **_storage_options(url, options))
        except (ValueError, ImportError) as error:
            raise Invalid(f"fsspec does not open this URL: url={url} error={error}") from error
        self._root = root.rstrip("/")

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        raise Invalid(f"{_READ_ONLY}: key={key}")

    def get(self, key: str) -> bytes:
        return self._read(key, None, None)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        if length == 0:
            return b""
        return self._read(key, start, start + length)

    def delete(self, key: str) -> None:
        raise Invalid(f"{_READ_ONLY}: key={key}")

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        folder, _, _ = prefix.rpartition("/")
        try:
            details = self._files.find(self._path(folder), detail=True)
        except FileNotFoundError:
            details = {}
        for path in sorted(details):
            key = path.removeprefix(self._root).lstrip("/")
            if key.startswith(prefix):
                yield ObjectInfo(key, int(details[path]["size"]), _modified_ms(details[path]))

    def close(self) -> None:
        """fsspec keeps its file systems for the process; there is nothing to give back."""

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}".rstrip("/")

    def _read(self, key: str, start: int | None, end: int | None) -> bytes:
        try:
            return bytes(self._files.cat_file(self._path(key), start=start, end=end))
        except FileNotFoundError as error:
            raise NotFound(f"no object key={key}") from error
        except PermissionError as error:
            raise Denied(f"not allowed to read: key={key} error={error}") from error
        except OSError as error:
            raise Retryable(f"could not be read: key={key} error={error}") from error


def _storage_options(url: str, options: S3Options) -> dict[str, Any]:
    if url.partition(":")[0].lower() not in ("s3", "s3a"):
        return {}
    client = {"endpoint_url": options.endpoint, "region_name": options.region}
    style = "path" if options.path_style or options.endpoint else "auto"
    return {
        "client_kwargs": {name: value for name, value in client.items() if value is not None},
        "config_kwargs": {"s3": {"addressing_style": style}},
        "use_listings_cache": False,
        "profile": options.profile,
    }


def _modified_ms(info: dict[str, Any]) -> int:
    """0 where the file system does not say."""
    modified = info.get("LastModified") or info.get("mtime") or info.get("created") or 0
    seconds = modified.timestamp() if hasattr(modified, "timestamp") else float(modified)
    return int(seconds * 1000)
