"""Where a log lies: its URL taken apart.

    DIR, file:///DIR          a directory
    s3://BUCKET[/PREFIX]      a bucket, s3a:// alike

`stores.backends` opens what lies there.
"""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from logstore.errors import Invalid
from logstore.objects.s3_options import S3Location


@dataclass(frozen=True, slots=True)
class DirectoryLocation:
    directory: Path
    """Absolute."""

    @property
    def url(self) -> str:
        return str(self.directory)


@dataclass(frozen=True, slots=True)
class ForeignLocation:
    """A URL of a kind that only fsspec knows: to be looked at, not to be served."""

    url: str


Location = DirectoryLocation | S3Location | ForeignLocation


def parse_location(url: str) -> Location:
    """Raises `Invalid` for a URL that this version does not serve."""
    if not url.strip():
        raise Invalid("no URL of a log given; pass a directory, such as ./data, or s3://BUCKET")
    scheme = url.partition(":")[0].lower()
    if scheme in ("s3", "s3a"):
        return S3Location.of(url)
    if scheme == "file":
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost"):
            raise Invalid(f"a file URL names another machine: url={url}")
        return DirectoryLocation(Path(unquote(parts.path)).absolute())
    if "://" in url:
        raise Invalid(
            f"unknown kind of URL: scheme={scheme}; pass a directory, s3://BUCKET/PREFIX or a "
            "file:// URL"
        )
    return DirectoryLocation(Path(url).absolute())


def parse_any_location(url: str) -> Location:
    """As `parse_location`, and any other URL as a `ForeignLocation`."""
    scheme, separator, _ = url.partition("://")
    if separator and scheme.lower() not in ("s3", "s3a", "file"):
        return ForeignLocation(url)
    return parse_location(url)
