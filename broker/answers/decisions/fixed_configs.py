"""Settings by Kafka's names that clients look up, and that cannot be given or changed here. Pure.

Tools show a broker's id, zone and addresses by them, or stop where one is missing. Left out is what
has no counterpart: threads, purgatories, disks of brokers. A number for those would be a lie.
"""

from collections.abc import Iterator, Sequence

from broker.answers.decisions.shown_configs import ShownConfig, Source, Synonym
from logstore.config.kinds import SettingKind
from logstore.protocol.leading.start import BrokerInfo

PROTOCOL = "PLAINTEXT"

_TRUTHS = (
    (
        *("delete.topic.enable", SettingKind.BOOLEAN, "true"),
        "Whether topics can be deleted; rights say by which clients.",
    ),
    (
        *("log.cleaner.backoff.ms", SettingKind.LONG, "15000"),
        "Sleep of Kafka's cleaner; see logstore.compaction.every. It has no effect here.",
    ),
    (
        *("log.cleaner.enable", SettingKind.BOOLEAN, "true"),
        "Whether keys are compacted: in topics' tables.",
    ),
    (
        *("unclean.leader.election.enable", SettingKind.BOOLEAN, "false"),
        "Whether a replica that lacks records may lead; no replica lacks any.",
    ),
)


def show_fixed_configs(me: BrokerInfo) -> Iterator[ShownConfig]:
    """Those of the broker `me`."""
    for name, kind, value, text in _TRUTHS:
        yield _fixed(name, kind, value, text, Source.DEFAULT)
    addresses = ",".join(
        f"{name or PROTOCOL}://{place.host}:{place.port}"
        for name, place in sorted(me.listeners.items())
    )
    facts: Sequence[tuple[str, SettingKind, str | None, str]] = (
        ("advertised.listeners", SettingKind.LIST, addresses, "Addresses that clients connect to."),
        ("broker.id", SettingKind.INT, str(me.broker), "Id of this broker, as Kafka 3 calls it."),
        ("broker.rack", SettingKind.STRING, me.rack or None, "Zone of this broker."),
        ("node.id", SettingKind.INT, str(me.broker), "Id of this broker."),
    )
    for name, kind, fact, text in facts:
        source = Source.DEFAULT if fact is None else Source.STATIC_BROKER
        yield _fixed(name, kind, fact, text, source)


def _fixed(
    name: str, kind: SettingKind, value: str | None, text: str, source: Source
) -> ShownConfig:
    synonyms = [Synonym(name, value, source)]
    return ShownConfig(name, value, source, True, False, kind, text, synonyms)
