"""The line at a start says what differs from the defaults, and no secret."""

from broker.process.start_line import start_values
from logstore.config.broker import BROKER_SETTINGS, BrokerSettings


def test_only_changed_settings_are_said_and_no_secret() -> None:
    canary = "canary-7f3a"
    default = BROKER_SETTINGS["num.partitions"].default
    settings = BrokerSettings(
        {
            "num.partitions": default,
            "logstore.flush.interval.ms": "50",
            "storage.profile": canary,
            "storage.endpoint": f"http://user:{canary}@host:9000",
        },
        hidden=["storage.profile"],
    )
    registry = f"dynamodb://t?endpoint=http://a:{canary}@b"
    values = start_values("1.2", 1, "s3://bucket/log", registry, settings)
    assert values == (
        "1.2",
        1,
        "s3://bucket/log",
        "dynamodb://t?endpoint=http://b",
        "logstore.flush.interval.ms:50,storage.endpoint:http://host:9000,storage.profile:(hidden)",
    )
    assert start_values("1.2", 1, "/data", "sqlite:registry.db", BrokerSettings())[-1] == "defaults"
