"""The log as processes of a sink keep it open: store, brokers, topics. One per process and log.

Spark starts a process of its own for each step of a batch, and keeps using it: connections and
topics are kept for the next batch.
"""

import random
import secrets
from collections.abc import Sequence
from functools import cache

from logstore.errors import Invalid, Refused, Unavailable
from logstore.formats.levels import A_SINK, SINK_LEVEL, why_not_written
from logstore.ports.clock import SystemClock, blocking_sleep_s
from logstore.reading.direct.reader import LogReader
from logstore.reading.planning.tasks import Storage
from logstore.retry import RetryDelays, retry
from logstore.runners.retrying import RetryingStore
from logstore.staging.brokers import BrokerAddress, Brokers
from logstore.staging.commit import BatchCommitter
from logstore.staging.manifests import Manifests
from logstore.staging.older_sinks import OlderSinks
from logstore.staging.reach import reach_broker
from logstore.staging.topics import SinkTopic, describe_topics
from logstore.wiring.open import identity_in, open_objects, open_readable
from spark_source.group_commit import addresses_of, registered_brokers
from spark_source.sink.application import AnsweredBefore, application_folder

TOPICS_AGE_S_MAX = 1.0
"""How long a change of a topic may go unnoticed: partitions that are added, limits, another life.

A manifest that names a topic by the id of an earlier life can never be committed, so it is short.
"""

CREATED_WITHIN_S = 5.0
"""How long brokers may not know a topic that another one has created."""

AWAY_S_MAX = 60.0
"""How long brokers may be away that have answered this application before."""

_PAUSE_S = 0.2


class OpenSink:
    """Ports of one log in one process; made once, by `open_sink`."""

    def __init__(self, url: str, storage: Storage, bootstrap: str) -> None:
        self._url, self._storage, self._bootstrap = url, storage, bootstrap
        self._has_level = False
        self._answered = AnsweredBefore(application_folder(), url, bootstrap)
        self.clock = SystemClock()
        self.rng = random.Random()
        self.store = RetryingStore(open_objects(url, dict(storage)), self.rng)
        identity = identity_in(self.store)
        if identity is None:
            raise Refused(f"no log here: url={url}; check the URL")
        self.cluster_id = identity.cluster_id
        self.brokers = Brokers(self._find_brokers)
        self._older = OlderSinks(
            self.store,
            self.cluster_id,
            clock=self.clock,
            draw_nonce=lambda: secrets.token_bytes(16),
        )
        self._topics: dict[str | None, tuple[float, dict[str, SinkTopic]]] = {}

    def committer(self) -> BatchCommitter:
        manifests = Manifests(
            self.store,
            self.cluster_id,
            clock=self.clock,
            rng=self.rng,
            draw_nonce=lambda: secrets.token_bytes(16),
        )
        return BatchCommitter(
            manifests, self.brokers, clock=self.clock, rng=self.rng, older=self._older
        )

    def topics(self, name: str | None) -> dict[str, SinkTopic]:
        """The topic that is named, or all. Raises `Invalid` where there is none of that name."""
        now_s = self.clock.monotonic_s()
        read_at_s, topics = self._topics.get(name, (-TOPICS_AGE_S_MAX, {}))
        if now_s - read_at_s < TOPICS_AGE_S_MAX and topics:
            return topics
        while True:
            topics = self._describe(name)
            if name is None or name in topics:
                self._topics[name] = now_s, topics
                return topics
            if self.clock.monotonic_s() - now_s > CREATED_WITHIN_S:
                raise Invalid(
                    f"no such topic: topic={name}; create it first, the sink creates none"
                )
            blocking_sleep_s(_PAUSE_S)

    def _describe(self, name: str | None) -> dict[str, SinkTopic]:
        self._answered.require(
            lambda: reach_broker(self._find_brokers, clock=self.clock, rng=self.rng)
        )
        names = None if name is None else [name]
        delays = RetryDelays(deadline_s=AWAY_S_MAX)
        return retry(lambda: describe_topics(self.brokers, names), delays, self.rng)

    def check_level(self) -> None:
        """Raises `Refused` where the cluster's format level has no sinks yet.

        Asked of the registry until it has: nothing lowers a level. Where that cannot be read,
        leaders say it at the commit.
        """
        if self._has_level:
            return
        try:
            log = open_readable(self._url, dict(self._storage))
            try:
                level = LogReader(log).format_level()
            finally:
                log.close()
        except Unavailable:
            return
        why = why_not_written(level, SINK_LEVEL, A_SINK)
        if why is not None:
            raise Refused(f"{why}; until then write with the option delivery=at-least-once")
        self._has_level = True

    def _find_brokers(self) -> Sequence[BrokerAddress]:
        found = addresses_of(self._bootstrap) or registered_brokers(self._url, dict(self._storage))
        return [BrokerAddress(*address) for address in found]


@cache
def open_sink(url: str, storage: Storage, bootstrap: str) -> OpenSink:
    return OpenSink(url, storage, bootstrap)
