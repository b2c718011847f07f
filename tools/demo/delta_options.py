"""Where a log lies and how it is reached, in delta-rs's words."""

from collections.abc import Mapping

from logstore.errors import Refused
from logstore.objects.credentials import AwsCredentials, configured_region
from logstore.objects.s3_options import S3Location, S3Options
from logstore.stores.location import DirectoryLocation

_DEFAULT_REGION = "us-east-1"


def delta_options(
    location: DirectoryLocation | S3Location, storage: Mapping[str, str]
) -> tuple[str, dict[str, str]]:
    """URL and storage options of the log at `location`. Raises `Refused` without credentials.

    The keys are those that our own S3 client would use now: good for minutes, not for keeping.
    """
    if isinstance(location, DirectoryLocation):
        return location.url, {}
    options = S3Options.of(storage)
    region = options.region
    if region is None and options.endpoint is None:
        region = configured_region(options.profile)
    try:
        keys = AwsCredentials(options.profile)()
    except LookupError as error:
        raise Refused(f"no AWS credentials for {location.url}: {error}") from error
    found = {
        "aws_access_key_id": keys["access_key_id"],
        "aws_secret_access_key": keys["secret_access_key"],
        "aws_region": region or _DEFAULT_REGION,
        "aws_conditional_put": "etag",
        "aws_virtual_hosted_style_request": str(
            not options.uses_path_style(location.bucket)
        ).lower(),
        "aws_unsigned_payload": str(not options.signs_payload).lower(),
        "allow_http": str(options.is_plain_http).lower(),
        "timeout": f"{options.timeout_ms}ms",
    }
    if token := keys.get("token"):
        found["aws_session_token"] = token
    if endpoint := options.endpoint_of(location.bucket):
        found["aws_endpoint_url"] = endpoint
    return location.url, found
