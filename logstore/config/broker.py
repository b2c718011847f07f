"""Settings of a broker process, from `--set name=value` and a TOML file.

A name is Kafka's where Kafka has one. In TOML a name may be spelt with its dots, quoted, or as
nested tables: `[logstore.flush.interval] ms = 50`. Whatever is given on the command line prevails.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from logstore.config.kinds import InvalidConfig, Kind, Setting, by_name, unknown_name
from logstore.config.storage import PREFIX as STORAGE_PREFIX
from logstore.config.storage import STORAGE_SETTINGS
from logstore.config.topics import BROKER_NAMES, TOPIC_SETTINGS

_KiB, _MiB = 1024, 1024 * 1024
_MINUTE_MS = 60_000

RETENTION_MS = "log.retention.ms"

BY_STORE = ""
"""Default that depends on where the log lies."""
NOT_SET = ""
"""Default of a setting that has none."""

_OWN = (
    Setting(
        name="auto.create.topics.enable",
        kind=Kind.BOOLEAN,
        default="true",
        documentation="Whether asking for a topic that does not exist creates it.",
    ),
    Setting(
        name="auto.leader.rebalance.enable",
        kind=Kind.BOOLEAN,
        default="true",
        documentation="Whether the controller moves partitions: back to their preferred leaders, "
        "and to brokers that lead fewer, such as one that has joined. A partition that moves waits "
        "for a flush or two; no data is copied.",
    ),
    Setting(
        name="leader.imbalance.check.interval.seconds",
        kind=Kind.LONG,
        default="30",
        documentation="How often the controller looks whether leadership is in balance. Kafka "
        "waits 300 s; here a move costs little.",
        at_least=1,
    ),
    Setting(
        name="leader.imbalance.per.broker.percentage",
        kind=Kind.INT,
        default="10",
        documentation="Imbalance of one broker that is left alone, in percent of its partitions.",
        at_least=0,
        at_most=100,
    ),
    Setting(
        name="controlled.shutdown.enable",
        kind=Kind.BOOLEAN,
        default="true",
        documentation="Whether a broker that is stopped hands its partitions to others first.",
    ),
    Setting(
        name="logstore.broker.gone.ms",
        kind=Kind.LONG,
        default="600000",
        documentation="A broker that is dead for so long gives up its place among the replicas of "
        "partitions to others. Shorter: restarts of machines move replicas to and fro.",
        at_least=10_000,
    ),
    Setting(
        name="logstore.put.age.max.ms",
        kind=Kind.INT,
        default="10000",
        documentation="A broker whose oldest segment waits longer than this for the store's "
        "answer, while other brokers' are answered, is fenced: its partitions go to others.",
        at_least=1000,
    ),
    Setting(
        name="connections.max.idle.ms",
        kind=Kind.LONG,
        default="600000",
        documentation="A connection on which nothing came for so long is closed.",
        at_least=1000,
    ),
    Setting(
        name="default.replication.factor",
        kind=Kind.INT,
        default="1",
        documentation="Replicas of a topic whose creator does not say; records live in the store.",
        at_least=1,
        at_most=32_767,
    ),
    Setting(
        name="fetch.max.bytes",
        kind=Kind.INT,
        default="57671680",
        documentation="Most bytes of records in one answer, whatever the consumer asks for.",
        at_least=1024,
    ),
    Setting(
        name="group.initial.rebalance.delay.ms",
        kind=Kind.INT,
        default="3000",
        documentation="How long the first rebalance of an empty group waits for more members: "
        "longer, fewer rebalances at start; shorter, records sooner.",
        at_least=0,
        at_most=3_600_000,
    ),
    Setting(
        name="group.max.session.timeout.ms",
        kind=Kind.INT,
        default="1800000",
        documentation="Longest session timeout that a member may ask for.",
        at_least=1,
    ),
    Setting(
        name="group.max.size",
        kind=Kind.INT,
        default="10000",
        documentation="Most members of a group; others are refused. Kafka has no limit.",
        at_least=1,
    ),
    Setting(
        name="group.min.session.timeout.ms",
        kind=Kind.INT,
        default="6000",
        documentation="Shortest session timeout that a member may ask for.",
        at_least=1,
    ),
    Setting(
        name="log.retention.check.interval.ms",
        kind=Kind.LONG,
        default="300000",
        documentation="How often a leader looks for records that are too old or too many. A look "
        "that finds none costs no request; one that does, a write to the registry for each "
        "partition.",
        at_least=1,
    ),
    Setting(
        name="log.retention.hours",
        kind=Kind.INT,
        default="168",
        documentation="log.retention.ms in hours, where neither that nor minutes are given; below "
        "0: for ever.",
    ),
    Setting(
        name="log.retention.minutes",
        kind=Kind.INT,
        default=NOT_SET,
        documentation="log.retention.ms in minutes, where that is not given; below 0: for ever.",
    ),
    Setting(
        name="max.connections",
        kind=Kind.INT,
        default="4096",
        documentation="Connections beyond this are closed at once. Each costs a few KiB when idle, "
        "128 KiB and what its frames need when busy.",
        at_least=1,
    ),
    Setting(
        name="num.partitions",
        kind=Kind.INT,
        default="1",
        documentation="Partitions of a topic whose creator does not say.",
        at_least=1,
        at_most=10_000,
    ),
    Setting(
        name="offset.metadata.max.bytes",
        kind=Kind.INT,
        default="4096",
        documentation="Longest text that may be committed beside an offset.",
        at_least=0,
        at_most=32_767,
    ),
    Setting(
        name="offsets.commit.timeout.ms",
        kind=Kind.INT,
        default="5000",
        documentation="How long a group's request waits for its commit; then the client is sent "
        "to look for the coordinator again.",
        at_least=1,
    ),
    Setting(
        name="offsets.retention.check.interval.ms",
        kind=Kind.LONG,
        default="600000",
        documentation="How often committed offsets that are too old are looked for.",
        at_least=1000,
    ),
    Setting(
        name="offsets.retention.minutes",
        kind=Kind.INT,
        default="10080",
        documentation="How long offsets are kept after the last member of their group left.",
        at_least=1,
    ),
    Setting(
        name="offsets.topic.num.partitions",
        kind=Kind.INT,
        default="50",
        documentation="Partitions of __consumer_offsets, over which groups are spread. Counts when "
        "the topic is created; afterwards the topic says it.",
        at_least=1,
        at_most=10_000,
    ),
    Setting(
        name="offsets.topic.replication.factor",
        kind=Kind.INT,
        default="3",
        documentation="Replicas of __consumer_offsets: brokers that take it over warm.",
        at_least=1,
        at_most=32_767,
    ),
    Setting(
        name="socket.request.max.bytes",
        kind=Kind.INT,
        default="104857600",
        documentation="Largest Produce request; memory is taken as its bytes arrive.",
        at_least=64 * _KiB,
    ),
    Setting(
        name="logstore.request.max.bytes",
        kind=Kind.INT,
        default=str(_MiB),
        documentation="Largest request of any other kind. Small frames can decode to many objects: "
        "1 MiB may hold the event loop for a quarter of a second.",
        at_least=64 * _KiB,
    ),
    Setting(
        name="logstore.connection.requests.max",
        kind=Kind.INT,
        default="5000",
        documentation="Requests of one connection that may wait for an answer; then it is not read "
        "until one is answered. Bounds what a connection can send per flush: 256 would be 2,560 "
        "requests a second at a flush of 100 ms. A waiting request costs about 1 KB.",
        at_least=1,
        at_most=100_000,
    ),
    Setting(
        name="logstore.cold.reads.max",
        kind=Kind.INT,
        default="16",
        documentation="Fetches that may read from the store at once; others wait. Each holds up to "
        "fetch.max.bytes.",
        at_least=1,
        at_most=1024,
    ),
    Setting(
        name="logstore.flush.interval.ms",
        kind=Kind.INT,
        default=BY_STORE,
        documentation="Time between two segments while anything is written: the floor of produce "
        "latency and the bill for requests. Default 100, on a directory 10.",
        at_least=0,
        at_most=60_000,
    ),
    Setting(
        name="logstore.group.bytes.max",
        kind=Kind.INT,
        default=str(8 * _MiB),
        documentation="Most bytes of what the members of one group bring along: it is kept in "
        "memory and written as one record. A group that is full takes no more members.",
        at_least=64 * _KiB,
        at_most=64 * _MiB,
    ),
    Setting(
        name="logstore.groups.bytes.max",
        kind=Kind.LONG,
        default=str(256 * _MiB),
        documentation="Most bytes of memory, about, for all groups that one broker coordinates. "
        "When that is full new members and offsets of new partitions are refused; members that "
        "are in, and offsets that are there, may take a quarter more.",
        at_least=_MiB,
    ),
    Setting(
        name="logstore.metrics.names.max",
        kind=Kind.INT,
        default="200",
        documentation="Topics, and groups, that metrics name. What is beyond is summed up as "
        "`other`: clients make up names, and each costs the monitoring system a series.",
        at_least=0,
        at_most=100_000,
    ),
    Setting(
        name="logstore.metrics.series.max",
        kind=Kind.INT,
        default="5000",
        documentation="Partitions that metrics show one by one, and the same of a group's "
        "partitions. A thousand cost a scrape about 13 ms of CPU.",
        at_least=0,
        at_most=1_000_000,
    ),
    Setting(
        name="logstore.segment.bytes",
        kind=Kind.INT,
        default=str(8 * _MiB),
        documentation="Size at which a segment leaves before its time. Larger: fewer, better "
        "packed objects.",
        at_least=64 * _KiB,
        at_most=256 * _MiB,
    ),
    Setting(
        name="logstore.backlog.bytes",
        kind=Kind.LONG,
        default=str(64 * _MiB),
        documentation="Bytes appended and not yet stored above which producers are not read. "
        "Bounds memory while the store is slow.",
        at_least=_MiB,
    ),
    Setting(
        name="logstore.delete.grace.ms",
        kind=Kind.LONG,
        default="3600000",
        documentation="Time between saying that segments may go and deleting them. Readers that "
        "planned to read them have so long to do it; shorter saves little storage.",
        at_least=60_000,
    ),
    Setting(
        name="logstore.cache.bytes",
        kind=Kind.LONG,
        default=str(128 * _MiB),
        documentation="Segments kept in memory for consumers; what is not there is fetched anew.",
        at_least=_MiB,
    ),
    Setting(
        name="logstore.history.cache.bytes",
        kind=Kind.LONG,
        default=str(64 * _MiB),
        documentation="Batches made from topics' tables kept in memory for consumers further back "
        "than segments go: 8 MiB for each partition that is read at a time, or the same are made "
        "again. Files that are being read take about as much beside it, and libraries 70 MB; "
        "nothing is taken until somebody reads so far back.",
        at_least=_MiB,
    ),
    Setting(
        name="logstore.history.threads",
        kind=Kind.INT,
        default="4",
        documentation="Threads that read topics' tables for consumers, begun when first needed. "
        "More of them wait for the store at once; fewer leave more of the machine to the rest.",
        at_least=1,
        at_most=64,
    ),
)


def _topic_default(topic_name: str, name: str) -> Setting:
    model = TOPIC_SETTINGS[topic_name]
    return Setting(
        name=name,
        kind=model.kind,
        default=model.default,
        documentation=f"Default of {topic_name}. {model.documentation}",
        at_least=model.at_least,
        at_most=model.at_most,
        one_of=model.one_of,
    )


BROKER_SETTINGS: Mapping[str, Setting] = by_name(
    (
        *_OWN,
        *STORAGE_SETTINGS.values(),
        *(_topic_default(topic, name) for topic, name in BROKER_NAMES.items()),
    )
)


class BrokerSettings:
    """The settings in force: what was given, else the default."""

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        """Raises `InvalidConfig` for a name or value that does not exist."""
        self.given = dict(given or {})
        for name, text in self.given.items():
            setting = BROKER_SETTINGS.get(name)
            if setting is None:
                raise unknown_name(name, BROKER_SETTINGS)
            setting.parse(text)
        self._take_retention("log.retention.minutes", _MINUTE_MS)
        self._take_retention("log.retention.hours", 60 * _MINUTE_MS)
        self.topic_defaults: Mapping[str, str] = {
            name: self.text(BROKER_NAMES[name]) if name in BROKER_NAMES else setting.default
            for name, setting in TOPIC_SETTINGS.items()
        }

    def _take_retention(self, name: str, unit_ms: int) -> None:
        """The finest unit that was given prevails, as in Kafka; it is shown as milliseconds."""
        if name in self.given and RETENTION_MS not in self.given:
            count = int(self.given[name])
            self.given[RETENTION_MS] = str(-1 if count < 0 else count * unit_ms)

    @property
    def storage(self) -> dict[str, str]:
        """The `storage.*` settings that were given."""
        return {name: text for name, text in self.given.items() if name.startswith(STORAGE_PREFIX)}

    def text(self, name: str) -> str:
        return self.given.get(name, BROKER_SETTINGS[name].default)

    def number(self, name: str, by_store: int = 0) -> int:
        """An integer setting; `by_store` is the default of one that depends on the store."""
        text = self.text(name)
        if text == BY_STORE:
            return by_store
        value = BROKER_SETTINGS[name].parse(text)
        assert isinstance(value, int), name
        return value

    def flag(self, name: str) -> bool:
        return BROKER_SETTINGS[name].parse(self.text(name)) is True


def read_settings(pairs: Iterable[str], toml: Mapping[str, Any] | None = None) -> BrokerSettings:
    """From `name=value` texts and a parsed TOML document. Raises `InvalidConfig`."""
    given = flatten(toml or {})
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidConfig(f"not of the form name=value: {pair!r}")
        given[name.strip()] = value.strip()
    return BrokerSettings(given)


def flatten(toml: Mapping[str, Any], above: str = "") -> dict[str, str]:
    """Nested tables as dotted names, values as text."""
    flat: dict[str, str] = {}
    for key, value in toml.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{name}."))
        elif isinstance(value, bool):
            flat[name] = "true" if value else "false"
        elif isinstance(value, list):
            flat[name] = ",".join(map(str, value))
        else:
            flat[name] = str(value)
    return flat
