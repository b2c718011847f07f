"""S3 URLs and `storage.*` settings."""

import pytest

from logstore.errors import Invalid
from logstore.objects.s3_options import S3Location, S3Options


@pytest.mark.parametrize(
    ("url", "bucket", "prefix"),
    [
        ("s3://bucket", "bucket", ""),
        ("s3://bucket/", "bucket", ""),
        ("s3://bucket/a/b", "bucket", "a/b"),
        ("s3://my.bucket-1/a/b/", "my.bucket-1", "a/b"),
        ("s3a://bucket/a", "bucket", "a"),
    ],
)
def test_a_url_is_a_bucket_and_a_prefix(url: str, bucket: str, prefix: str) -> None:
    location = S3Location.of(url)
    assert (location.bucket, location.prefix) == (bucket, prefix)
    assert S3Location.of(location.url) == location


@pytest.mark.parametrize(
    "url",
    [
        *("s3://", "s3:///a", "http://bucket/a", "s3://Bucket/a", "s3://b_b/a", "s3://ab/a"),
        *("s3://bucket/a?region=x", "s3://bucket/a#b", "s3://bucket/a//b", "s3://bucket/.a"),
        "s3://bucket--use1-az4--x-s3/a",
    ],
)
def test_what_is_no_url_of_a_bucket_is_refused(url: str) -> None:
    with pytest.raises(Invalid):
        S3Location.of(url)


def test_credentials_in_a_url_are_refused_and_not_repeated() -> None:
    for make in (
        lambda: S3Location.of("s3://AKIAKEY:s3cr3t@bucket/a"),
        lambda: S3Options.of({"storage.endpoint": "https://AKIAKEY:s3cr3t@host"}, {}),
    ):
        with pytest.raises(Invalid) as refused:
            make()
        assert "s3cr3t" not in str(refused.value)


def test_nothing_said_is_aws_as_it_comes() -> None:
    options = S3Options.of({}, {})
    assert options == S3Options()
    assert options.endpoint_of("bucket") is None
    assert not options.signs_payload
    assert not options.uses_path_style("bucket")
    assert options.uses_path_style("bucket.with.dots")


def test_the_aws_environment_fills_in_what_no_setting_says() -> None:
    environment = {
        "AWS_ENDPOINT_URL": "http://all:1",
        "AWS_ENDPOINT_URL_S3": "http://s3:2",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_REGION": "eu-central-1",
    }
    found = S3Options.of({"storage.endpoint": "  "}, environment)
    assert (found.endpoint, found.region) == ("http://s3:2", "eu-central-1")
    settings = {"storage.endpoint": "https://mine", "storage.region": "here"}
    said = S3Options.of(settings, environment)
    assert (said.endpoint, said.region) == ("https://mine", "here")


def test_an_endpoint_of_ones_own_has_the_bucket_in_the_path_unless_set_otherwise() -> None:
    plain = S3Options.of({"storage.endpoint": "http://host:9000"}, {})
    assert plain.endpoint_of("bucket") == "http://host:9000"
    hosted = S3Options.of({"storage.endpoint": "https://host", "storage.path.style": "false"}, {})
    assert hosted.endpoint_of("bucket") == "https://bucket.host"


def test_bodies_are_signed_where_nothing_else_protects_them() -> None:
    def signs(endpoint: str, **more: str) -> bool:
        settings = {"storage.endpoint": endpoint, **more}
        return S3Options.of(settings, {}).signs_payload

    assert signs("http://host")
    assert not signs("https://host")
    assert not signs("http://host", **{"storage.signed.payload": "false"})
    assert signs("https://host", **{"storage.signed.payload": "TRUE"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("storage.endpoint", "host:9000"),
        ("storage.endpoint", "ftp://host"),
        ("storage.endpoint", "http://host:port"),
        ("storage.endpoint", "http://host?x=1"),
        ("storage.path.style", "yes"),
        ("storage.signed.payload", "1"),
        ("storage.timeout.ms", "soon"),
        ("storage.timeout.ms", "0"),
        ("storage.timeout.ms", "99999999"),
        ("storage.pathstyle", "true"),
    ],
)
def test_a_wrong_setting_is_named(name: str, value: str) -> None:
    with pytest.raises(Invalid, match=name.replace(".", r"\.")):
        S3Options.of({name: value}, {})


def test_settings_of_others_are_not_looked_at() -> None:
    settings = {"logstore.flush.interval.ms": "x", "storage.timeout.ms": "500"}
    assert S3Options.of(settings, {}) == S3Options(timeout_ms=500)
