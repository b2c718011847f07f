"""Settings of the object store, spelt alike in `--set`, TOML files and Spark's options.

`logstore.objects.s3_options` reads them and defines their meaning. Empty: the AWS environment
decides. They have no effect on a directory.
"""

from collections.abc import Mapping

from logstore.config.kinds import Setting, SettingKind, by_name

PREFIX = "storage."

STORAGE_SETTINGS: Mapping[str, Setting] = by_name(
    (
        Setting(
            name="storage.endpoint",
            kind=SettingKind.STRING,
            default="",
            documentation="URL of an S3 server that is not AWS.",
        ),
        Setting(
            name="storage.dynamodb.endpoint",
            kind=SettingKind.STRING,
            default="",
            documentation="URL of a DynamoDB server that is not AWS. A log names the server of its "
            "registry in cluster.json; one that is neither AWS's nor on this machine is believed "
            "only if this setting, or AWS_ENDPOINT_URL_DYNAMODB, names it too.",
        ),
        Setting(
            name="storage.region",
            kind=SettingKind.STRING,
            default="",
            documentation="Region of the bucket.",
        ),
        Setting(
            name="storage.profile",
            kind=SettingKind.STRING,
            default="",
            documentation="Profile of the AWS configuration, for S3 and for the registry's "
            "DynamoDB table.",
        ),
        Setting(
            name="storage.path.style",
            kind=SettingKind.BOOLEAN,
            default="",
            documentation="Whether the bucket name is part of the path. Default: true with "
            "storage.endpoint, and for bucket names with dots.",
        ),
        Setting(
            name="storage.signed.payload",
            kind=SettingKind.BOOLEAN,
            default="",
            documentation="Whether the signature covers a hash of the body, which costs 3-5 ms of "
            "CPU per 8 MiB. Default: true over plain http.",
        ),
        Setting(
            name="storage.timeout.ms",
            kind=SettingKind.INT,
            default="20000",
            documentation="Timeout of one attempt, including its response. Lower: hanging "
            "requests are detected sooner, and slow ones are retried needlessly.",
            at_least=100,
            at_most=600_000,
        ),
    )
)
