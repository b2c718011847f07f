"""A place of its own in a bucket for each test, on whatever S3 server answers at an endpoint."""

import functools
import uuid
from typing import Any

import botocore.session
from botocore.config import Config

from logstore.objects.s3_options import S3Location
from tests.servers.locked_moto import ENVIRONMENT, REGION


def new_location(endpoint: str) -> S3Location:
    """An empty prefix that no other test has, in a bucket that all share."""
    return S3Location(_bucket(endpoint), f"logs/{uuid.uuid4().hex}")


def new_bucket(endpoint: str) -> S3Location:
    """An empty bucket that no other test has."""
    bucket = f"bucket-{uuid.uuid4().hex}"
    s3_client(endpoint).create_bucket(Bucket=bucket)
    return S3Location(bucket)


@functools.cache
def s3_client(endpoint: str) -> Any:
    """Another S3 client than ours, to look at what ours did."""
    return botocore.session.Session().create_client(
        "s3",
        region_name=REGION,
        endpoint_url=endpoint,
        aws_access_key_id=ENVIRONMENT["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=ENVIRONMENT["AWS_SECRET_ACCESS_KEY"],
        config=Config(s3={"addressing_style": "path"}),
    )


@functools.cache
def _bucket(endpoint: str) -> str:
    return new_bucket(endpoint).bucket
