"""URLs of logs taken apart."""

from pathlib import Path

import pytest

from logstore.errors import Invalid
from logstore.objects.s3_options import S3Location
from logstore.stores.location import DirectoryLocation, Location, parse_location


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("/data/log", DirectoryLocation(Path("/data/log"))),
        ("data", DirectoryLocation(Path.cwd() / "data")),
        ("./da ta%20", DirectoryLocation(Path.cwd() / "da ta%20")),
        ("file:///data/a%20b", DirectoryLocation(Path("/data/a b"))),
        ("file:/data/log", DirectoryLocation(Path("/data/log"))),
        ("file://localhost/data", DirectoryLocation(Path("/data"))),
        ("s3://bucket", S3Location("bucket")),
        ("s3://bucket/a/b/", S3Location("bucket", "a/b")),
        ("s3a://bucket/a", S3Location("bucket", "a")),
    ],
)
def test_a_url_is_a_directory_or_a_bucket(url: str, location: Location) -> None:
    assert parse_location(url) == location
    assert parse_location(location.url) == location


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "no URL"),
        ("  ", "no URL"),
        ("file://host/data", "another machine"),
        ("gs://bucket/a", "scheme=gs"),
        ("http://host/a", "s3://BUCKET/PREFIX"),
        ("s3:bucket", "bucket"),
        ("s3://", "not a bucket name"),
        ("s3://key:secret@bucket/a", "no keys"),
        ("s3://bucket/a?region=b", "no settings"),
    ],
)
def test_what_is_wrong_with_a_url_is_said(url: str, why: str) -> None:
    with pytest.raises(Invalid, match=why) as refused:
        parse_location(url)
    assert "secret" not in str(refused.value)
