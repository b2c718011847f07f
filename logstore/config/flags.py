"""Settings that `logstore serve` also has a flag for: which log, which broker, where it listens."""

from collections.abc import Mapping

from logstore.config.kinds import Setting, SettingKind, by_name
from logstore.config.process import NOT_SET

URL, BROKER, LISTEN, ADVERTISE, RACK = "url", "broker", "listen", "advertise", "rack"
HTTP, LOG_FORMAT, STATE_DIR = "http", "log.format", "state.dir"
AUTO = "auto"
LOG_FORMATS = ("text", "json")
DEFAULT_LISTEN = "127.0.0.1:9092"

FLAG_SETTINGS: Mapping[str, Setting] = by_name(
    (
        Setting(
            name=URL,
            kind=SettingKind.STRING,
            default=NOT_SET,
            documentation="The log: a directory, such as ./data, or s3://BUCKET/PREFIX.",
        ),
        Setting(
            name=BROKER,
            kind=SettingKind.STRING,
            default="1",
            documentation="Number of this broker, unique in the cluster. auto: the lowest that no "
            "live process has; a restart with the same state.dir keeps it. So any number of equal "
            "processes form a cluster. A start takes a second longer, or 3 s after a crash.",
        ),
        Setting(
            name=LISTEN,
            kind=SettingKind.LIST,
            default=DEFAULT_LISTEN,
            documentation="Addresses that accept clients, each [NAME://]HOST:PORT; port 0: any "
            "that is free.",
        ),
        Setting(
            name=ADVERTISE,
            kind=SettingKind.LIST,
            default=NOT_SET,
            documentation="Addresses that clients of a listener are given to connect to, each "
            "[NAME://]HOST:PORT. Default: the listener's own. auto[:PORT]: the IP address that "
            "Kubernetes (POD_IP), ECS or EC2 says this process has; the port is the listener's.",
        ),
        Setting(
            name=RACK,
            kind=SettingKind.STRING,
            default=NOT_SET,
            documentation="Zone this broker is in. Consumers that name theirs read from a replica "
            "in it, which saves traffic between zones. auto: the availability zone that Kubernetes "
            "(POD_ZONE), ECS or EC2 says this process is in.",
        ),
        Setting(
            name=HTTP,
            kind=SettingKind.STRING,
            default=NOT_SET,
            documentation="HOST:PORT of /metrics, /healthz and /readyz; port 0: any that is free. "
            "Every client that reaches it may read them. Default: nowhere.",
        ),
        Setting(
            name=LOG_FORMAT,
            kind=SettingKind.STRING,
            default="text",
            documentation="Format of log lines on stderr.",
            one_of=LOG_FORMATS,
        ),
        Setting(
            name=STATE_DIR,
            kind=SettingKind.STRING,
            default=NOT_SET,
            documentation="Directory of this machine's lock when the log is in a bucket. One that "
            "is kept over a restart lets the broker return without a wait for its lease. Default: "
            "~/.local/state/logstore.",
        ),
    )
)
