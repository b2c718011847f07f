"""Which credentials are found, how fresh they are, and that they are never shown."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from logstore.errors import Denied, Refused
from logstore.objects.credentials import AwsCredentials, configured_region
from logstore.objects.s3 import S3BlockingStore
from logstore.objects.s3_options import S3Location, S3Options
from logstore.ports.clock import SystemClock
from tests.servers.locked_moto import aws_environment
from tests.servers.saying import saying_server

CONFIGURATION = """
[profile work]
region = eu-north-1
credential_process = cat {folder}/process.json
[profile other]
aws_access_key_id = OTHERKEY
aws_secret_access_key = other-secret
"""
BY_PROCESS = '{"Version": 1, "AccessKeyId": "WORKKEY%s", "SecretAccessKey": "work-secret"}'


@pytest.fixture
def profiles(tmp_path: Path) -> Iterator[Path]:
    """No keys in the environment, two profiles in its files."""
    (tmp_path / "config").write_text(CONFIGURATION.format(folder=tmp_path))
    (tmp_path / "process.json").write_text(BY_PROCESS % 1)
    with aws_environment({"AWS_CONFIG_FILE": str(tmp_path / "config")}):
        del os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
        del os.environ["AWS_REGION"], os.environ["AWS_DEFAULT_REGION"]
        yield tmp_path


def test_keys_in_the_environment_come_first_unless_a_profile_is_named(profiles: Path) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "ENVKEY", "AWS_SECRET_ACCESS_KEY": "s", "AWS_PROFILE": "other"}
    os.environ.update({**keys, "AWS_SESSION_TOKEN": "token"})
    assert AwsCredentials()()["access_key_id"] == "ENVKEY"
    assert AwsCredentials()().get("token") == "token"
    assert AwsCredentials("work")()["access_key_id"] == "WORKKEY1"


def test_a_profile_gives_keys_and_region(profiles: Path) -> None:
    os.environ["AWS_PROFILE"] = "work"
    assert AwsCredentials()()["access_key_id"] == "WORKKEY1"
    assert AwsCredentials("other")()["access_key_id"] == "OTHERKEY"
    assert configured_region(None) == configured_region("work") == "eu-north-1"
    assert configured_region("other") is None


def test_credentials_are_asked_for_again_in_seconds_not_kept_for_half_an_hour() -> None:
    with aws_environment():
        expires_at = AwsCredentials()()["expires_at"]
    assert expires_at is not None
    # The client asks again five minutes before.
    now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    assert expires_at - now < timedelta(minutes=5, seconds=20)


def test_what_was_put_right_is_found(profiles: Path) -> None:
    credentials = AwsCredentials("work")
    credentials()
    (profiles / "process.json").write_text(BY_PROCESS % 2)
    assert credentials()["access_key_id"] == "WORKKEY1"
    credentials.look_again()
    assert credentials()["access_key_id"] == "WORKKEY2"


def test_no_credentials_is_one_line_that_says_what_to_do(profiles: Path) -> None:
    with saying_server() as server:
        store = S3BlockingStore(S3Location("bucket"), S3Options(endpoint=server.endpoint))
        with pytest.raises(Denied, match=r"no AWS credentials: .*aws sso login"):
            store.create("k", [b"x"])
        assert server.requests == []
        unknown = S3Options(endpoint=server.endpoint, profile="unknown")
        with pytest.raises(Denied, match=r"profile \(unknown\) could not be found"):
            S3BlockingStore(S3Location("bucket"), unknown).get("k")
    with pytest.raises(Refused, match=r"profile \(unknown\) could not be found"):
        S3BlockingStore(S3Location("bucket"), S3Options(profile="unknown"))
