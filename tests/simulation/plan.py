"""What one seed does: which faults, how often, on what sizes. Each seed draws for itself."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from logstore.config.broker import BrokerSettings
from logstore.epoch.log import LogSettings
from logstore.epoch.writer import ChainLimits
from logstore.protocol.chain.flush import FlushSettings
from logstore.testing.simulated_network import NetworkFaults
from logstore.testing.simulated_rows import RowFaults
from logstore.testing.simulated_store import StoreFaults

KiB = 1024
NEVER_S = 1_000_000.0


@dataclass(frozen=True, slots=True)
class Plan:
    store: StoreFaults
    rows: RowFaults
    settings: LogSettings
    partitions: int
    idempotent: int
    plain: int
    crowd: int
    """How many producers send one batch each and are never seen again: they make states large."""
    padding_bytes: int
    """Added to every value: arenas fill up and are used again."""
    faults_s: float
    flips_bits: bool
    brokers: int = 1
    moves: bool = False
    """Whether an admin moves partitions and changes their replicas all the time."""
    replicas: int = 1
    """At most: each topic draws its own."""
    follower_reads: float = 0.0
    """Share of fetches that go to a follower."""
    grace_s: float = 0.0
    """What is below a trim point is deleted after so long; 0: nothing is trimmed."""
    clocks_differ: bool = False
    """Whether each life of a broker has a date of its own, an hour off at most, and a clock that
    runs up to 2 % too fast or too slow."""
    network: NetworkFaults = field(default_factory=NetworkFaults)
    odd_clients: float = 0.0
    """Share of clients that give batches up, wrap sequences, read slowly or half close."""
    group_members: int = 0
    """Consumers that share a group: their offsets keep chains from being trimmed whole."""
    slowness: float = 0.0
    """How much slower each broker's machine is than the one measured; 0: steps take no time."""
    pause_s_max: float = 0.5
    """Between two things that a client does."""
    retention_check_s: float = 0.0
    """How often brokers look for records that are too old; 0: as in production, never in a run."""

    @property
    def broker_settings(self) -> BrokerSettings:
        """Where nothing is to be trimmed, the grace outlasts the run."""
        given = {
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "2",
            "offsets.topic.replication.factor": str(self.replicas),
        }
        grace_ms = int((self.grace_s or NEVER_S) * 1000)
        numbers = {"logstore.delete.grace.ms": grace_ms}
        if self.retention_check_s:
            numbers["log.retention.check.interval.ms"] = int(self.retention_check_s * 1000)
        return HurriedSettings(given, numbers)


class HurriedSettings(BrokerSettings):
    """Some numbers smaller than a user may set them: a run lasts a minute."""

    def __init__(self, given: Mapping[str, str], numbers: Mapping[str, int]) -> None:
        super().__init__(given)
        self._numbers = numbers

    def copy(self) -> BrokerSettings:
        return HurriedSettings(self.given, self._numbers)

    def number(self, name: str, by_store: int = 0) -> int:
        return self._numbers.get(name, super().number(name, by_store))


def draw_cluster_plan(rng: random.Random) -> Plan:
    """A plan for two to four brokers."""
    plan = draw_plan(rng)
    brokers, partitions = rng.randint(2, 4), rng.randint(2, 8)
    moves, faults_s = rng.random() < 0.6, rng.uniform(15, 50)
    replicas, follower_reads = rng.randint(1, 3), rng.choice((0.0, 0.3, 0.7))
    grace_s = rng.choice((0.0, 5.0, 10.0, 30.0))
    settings = replace(plan.settings, delete_grace_s=grace_s) if grace_s else plan.settings
    return replace(
        plan,
        settings=settings,
        brokers=brokers,
        partitions=partitions,
        moves=moves,
        faults_s=faults_s,
        replicas=replicas,
        follower_reads=follower_reads,
        grace_s=grace_s,
        clocks_differ=rng.random() < 0.5,
        group_members=rng.choice((0, 0, 0, 1, 3)),
    )


def draw_plan(rng: random.Random) -> Plan:
    """Each kind of fault is there in about half of the seeds, so that rare mixes come up too."""

    def maybe(most: float, share: float = 0.5) -> float:
        return rng.uniform(0, most) if rng.random() < share else 0.0

    flips_bits = rng.random() < 0.15
    store = StoreFaults(
        put_lost=maybe(0.1),
        put_answer_lost=maybe(0.1),
        put_late=maybe(0.1),
        put_doubled=maybe(0.1),
        put_conflict=maybe(0.1),
        throttled=maybe(0.1),
        get_failed=maybe(0.1),
        get_short=maybe(0.02) if flips_bits else 0.0,
        get_flipped=maybe(0.02) if flips_bits else 0.0,
        slow=maybe(0.05),
        latency_max_s=rng.choice((0.005, 0.03, 0.2)),
    )
    rows = RowFaults(
        throttled=maybe(0.1, 0.3),
        lost=maybe(0.1, 0.3),
        answer_lost=maybe(0.1, 0.3),
        late=maybe(0.15),
        slow=maybe(0.05, 0.3),
    )
    settings = LogSettings(
        flush=FlushSettings(
            interval_s=rng.choice((0.01, 0.05, 0.1)),
            segment_bytes_max=64 * KiB,
            backlog_bytes_max=rng.choice((128 * KiB, 64 * 1024 * KiB)),
        ),
        limits=ChainLimits(
            checkpoint_segments=rng.choice((2, 5, 20, 256)),
            checkpoint_entries=rng.choice((10, 100, 100_000)),
            inline_bytes_max=rng.choice((60, 400, 64 * KiB)),
            chunk_bytes_max=rng.choice((50, 300, 1024 * KiB)),
            arena_bytes=128 * KiB,
        ),
        cache_bytes_max=rng.choice((500, 20 * KiB, 1024 * KiB)),
    )
    if settings.cache_bytes_max < KiB:
        settings = replace(settings, whole_segment_bytes=0)  # segments are small in this world
    return Plan(
        store=store,
        rows=rows,
        settings=settings,
        partitions=rng.randint(1, 4),
        idempotent=rng.randint(1, 3),
        plain=rng.randint(0, 1),
        crowd=rng.choice((0, 0, 3, 20)),
        padding_bytes=rng.choice((0, 0, 3 * KiB)),
        faults_s=rng.uniform(10, 40),
        flips_bits=flips_bits,
        network=_draw_network(rng),
        odd_clients=maybe(1.0),
        slowness=rng.choice((1.0, 1.0, 4.0, 16.0)),
    )


def _draw_network(rng: random.Random) -> NetworkFaults:
    return NetworkFaults(
        reset=rng.uniform(0, 0.3) if rng.random() < 0.5 else 0.0,
        silent=rng.uniform(0, 0.2) if rng.random() < 0.3 else 0.0,
        latency_max_s=rng.choice((0.0005, 0.002, 0.02)),
        in_pieces=rng.uniform(0, 0.5),
    )
