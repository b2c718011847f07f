"""Settings of the object store, spelt alike in `--set`, TOML files and Spark's options.

What they mean is said in `logstore.objects.s3_options`, which reads them. Empty: the AWS
environment decides. On a directory they have no meaning.
"""

from collections.abc import Mapping

from logstore.config.kinds import Kind, Setting, by_name

PREFIX = "storage."

STORAGE_SETTINGS: Mapping[str, Setting] = by_name(
    (
        Setting(
            name="storage.endpoint",
            kind=Kind.STRING,
            default="",
            documentation="URL of an S3 server that is not AWS.",
        ),
        Setting(
            name="storage.region",
            kind=Kind.STRING,
            default="",
            documentation="Region of the bucket.",
        ),
        Setting(
            name="storage.profile",
            kind=Kind.STRING,
            default="",
            documentation="Profile of the AWS configuration, for S3 and for the registry's table.",
        ),
        Setting(
            name="storage.path.style",
            kind=Kind.BOOLEAN,
            default="",
            documentation="Whether the bucket goes into the path. Default: with an endpoint of "
            "one's own, and for names with dots.",
        ),
        Setting(
            name="storage.signed.payload",
            kind=Kind.BOOLEAN,
            default="",
            documentation="Whether bodies are hashed into the signature, which costs 3-5 ms of CPU "
            "per 8 MiB. Default: over plain http.",
        ),
        Setting(
            name="storage.timeout.ms",
            kind=Kind.INT,
            default="20000",
            documentation="Time for one attempt, answer included. Shorter finds a hanging request "
            "sooner and repeats slow ones in vain.",
            at_least=100,
            at_most=600_000,
        ),
    )
)
