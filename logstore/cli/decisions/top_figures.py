"""The figures of `logstore top`, from two looks at the metrics of all brokers. Pure.

A rate is what a counter rose by between two looks, by the seconds between them: unknown (None) at
the first look, and for a broker that started again in between. A broker that does not answer is
gone; the figures of the others go on without it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from logstore.cli.decisions.metrics_page import MetricsPage

HOUR_S = 3_600
REQUESTS = "logstore_request_duration_seconds"
COMMITS = "logstore_commit_seconds"
OTHER = "other"
"""The label of what brokers do not show by name."""

Place = tuple[str, str]
"""Topic and partition, as labels have them."""


class BrokerLook(NamedTuple):
    """One look at one broker. `page` is None where it did not answer, for the reason `error`."""

    at_s: float
    """By a clock that only rises."""
    page: MetricsPage | None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFigures:
    """Bytes, seconds, and amounts a second (`…_rate`) of one broker."""

    address: str
    state: str
    error: str = ""
    is_controller: bool = False
    led: int = 0
    bytes_in_rate: float | None = None
    bytes_out_rate: float | None = None
    requests_rate: float | None = None
    produce_p50_s: float | None = None
    produce_p99_s: float | None = None
    commit_p99_s: float | None = None
    backlog_bytes: int = 0
    oldest_put_s: float = 0.0
    holds_rate: float | None = None
    holds_producers: bool = False
    dollars_an_hour: float | None = None


@dataclass(frozen=True, slots=True)
class ApiFigures:
    api: str
    rate: float
    p50_s: float | None
    p99_s: float | None
    errors_rate: float


@dataclass(frozen=True, slots=True)
class TopicFigures:
    topic: str
    bytes_in_rate: float
    records_in_rate: float
    bytes_out_rate: float


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """`lag` counts offsets, over all partitions whose end some broker tells."""

    group: str
    members: int
    topics: int
    lag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFigures:
    """Each list begins with what needs a look first, and is as long as was asked for."""

    brokers: Sequence[BrokerFigures]
    alive: int
    controllers: int
    partitions_without_leader: int
    throttled: int
    """Connections that a quota holds."""
    bytes_in_rate: float | None
    bytes_out_rate: float | None
    requests_rate: float | None
    dollars_an_hour: float | None
    lag: int
    apis: Sequence[ApiFigures]
    topics: Sequence[TopicFigures]
    groups: Sequence[GroupFigures]


class _Pair(NamedTuple):
    """Two pages of one start of one broker."""

    before: MetricsPage
    after: MetricsPage
    seconds: float

    def risen(self, name: str) -> dict[tuple[tuple[str, str], ...], float]:
        """By labels; what was not there before began at 0."""
        before = self.before.series.get(name, {})
        return {
            labels: max(0.0, value - before.get(labels, 0.0))
            for labels, value in self.after.series.get(name, {}).items()
        }

    def rate(self, name: str) -> float:
        return sum(self.risen(name).values()) / self.seconds


def cluster_figures(
    before: Mapping[str, BrokerLook], after: Mapping[str, BrokerLook], rows_max: int
) -> ClusterFigures:
    """Looks by address."""
    pairs = {
        address: pair
        for address, look in after.items()
        if (pair := _pair(before.get(address), look)) is not None
    }
    brokers = [_broker(address, look, pairs.get(address)) for address, look in after.items()]
    pages = [look.page for look in after.values() if look.page is not None]
    groups = _groups(pages)
    return ClusterFigures(
        brokers=sorted(brokers, key=_urgency),
        alive=len(pages),
        controllers=round(sum(page.value("logstore_controller_active") for page in pages)),
        partitions_without_leader=round(
            max((page.value("logstore_partitions_without_leader") for page in pages), default=0)
        ),
        throttled=round(sum(page.value("logstore_connections_throttled") for page in pages)),
        bytes_in_rate=_sum([one.bytes_in_rate for one in brokers]),
        bytes_out_rate=_sum([one.bytes_out_rate for one in brokers]),
        requests_rate=_sum([one.requests_rate for one in brokers]),
        dollars_an_hour=_sum([one.dollars_an_hour for one in brokers]),
        lag=sum(one.lag for one in groups),
        apis=_apis(list(pairs.values()))[:rows_max],
        topics=_topics(list(pairs.values()))[:rows_max],
        groups=groups[:rows_max],
    )


def quantile(q: float, counts: Mapping[float, float]) -> float | None:
    """The value below which the share `q` lies, of cumulative `counts` by upper bound.

    Within a bucket values are taken as even, as Prometheus does it; above the last finite bound,
    that bound. None without any value.
    """
    bounds = sorted(counts.items())
    if not bounds or bounds[-1][1] <= 0:
        return None
    rank = q * bounds[-1][1]
    for (low, below), (high, count) in pairwise([(0.0, 0.0), *bounds]):
        if count >= rank and count > below:
            return (
                low
                if high == float("inf")
                else low + (high - low) * (rank - below) / (count - below)
            )
    return None


def _pair(before: BrokerLook | None, after: BrokerLook) -> _Pair | None:
    if before is None or before.page is None or after.page is None:
        return None
    seconds = after.at_s - before.at_s
    epochs = [one.page.value("logstore_broker_epoch") for one in (before, after) if one.page]
    started = [one.page.value("process_start_time_seconds") for one in (before, after) if one.page]
    if seconds <= 0 or len(set(epochs)) > 1 or len(set(started)) > 1:
        return None
    return _Pair(before.page, after.page, seconds)


def _urgency(one: BrokerFigures) -> tuple[bool, bool, float, str]:
    return (
        one.state != "gone",
        one.state == "serving",
        -(one.bytes_in_rate or 0.0),
        one.address,
    )


def _broker(address: str, look: BrokerLook, pair: _Pair | None) -> BrokerFigures:
    page = look.page
    if page is None:
        return BrokerFigures(address=address, state="gone", error=look.error)
    figures = BrokerFigures(
        address=address,
        state=_state(page),
        is_controller=page.value("logstore_controller_active") > 0,
        led=round(page.value("logstore_partitions_led")),
        backlog_bytes=round(page.value("logstore_backlog_bytes")),
        oldest_put_s=page.value("logstore_oldest_put_age_seconds"),
        holds_producers=page.value("logstore_producers_held") > 0,
    )
    return figures if pair is None else _with_rates(figures, pair)


def _with_rates(figures: BrokerFigures, pair: _Pair) -> BrokerFigures:
    produce = _buckets([pair], REQUESTS, "Produce")
    dollars_rate = pair.rate("logstore_store_dollars_total") + pair.rate(
        "logstore_registry_dollars_total"
    )
    return replace(
        figures,
        bytes_in_rate=pair.rate("logstore_topic_bytes_in_total"),
        bytes_out_rate=pair.rate("logstore_topic_bytes_out_total"),
        requests_rate=pair.rate(f"{REQUESTS}_count"),
        produce_p50_s=quantile(0.5, produce),
        produce_p99_s=quantile(0.99, produce),
        commit_p99_s=quantile(0.99, _buckets([pair], COMMITS)),
        holds_rate=pair.rate("logstore_loop_holds_total"),
        dollars_an_hour=dollars_rate * HOUR_S,
    )


def _state(page: MetricsPage) -> str:
    """As the broker says, but one that serves and is not ready says that."""
    states = page.labelled("logstore_broker_state")
    state = next((labels["state"] for labels, value in states if value), "unknown")
    is_ready = page.value("logstore_ready") > 0
    return "not ready" if state == "serving" and not is_ready else state


def _buckets(pairs: Sequence[_Pair], name: str, api: str | None = None) -> dict[float, float]:
    counts: dict[float, float] = defaultdict(float)
    for pair in pairs:
        for labels, risen in pair.risen(f"{name}_bucket").items():
            named = dict(labels)
            if api is None or named.get("api") == api:
                counts[float(named["le"])] += risen
    return counts


def _sum(rates: Sequence[float | None]) -> float | None:
    known = [one for one in rates if one is not None]
    return sum(known) if known else None


def _by_label(pairs: Sequence[_Pair], name: str, label: str) -> dict[str, float]:
    """Amounts a second, of all brokers."""
    rates: dict[str, float] = defaultdict(float)
    for pair in pairs:
        for labels, risen in pair.risen(name).items():
            rates[dict(labels)[label]] += risen / pair.seconds
    return rates


def _apis(pairs: Sequence[_Pair]) -> list[ApiFigures]:
    errors = _by_label(pairs, "logstore_request_errors_total", "api")
    found = []
    for api, rate in _by_label(pairs, f"{REQUESTS}_count", "api").items():
        if rate or errors.get(api):
            buckets = _buckets(pairs, REQUESTS, api)
            p50_s, p99_s = quantile(0.5, buckets), quantile(0.99, buckets)
            found.append(ApiFigures(api, rate, p50_s, p99_s, errors.get(api, 0.0)))
    return sorted(found, key=lambda one: (-one.rate, one.api))


def _topics(pairs: Sequence[_Pair]) -> list[TopicFigures]:
    bytes_in, records_in, bytes_out = (
        _by_label(pairs, f"logstore_topic_{name}_total", "topic")
        for name in ("bytes_in", "records_in", "bytes_out")
    )
    found = [
        TopicFigures(topic, rate, records_in.get(topic, 0.0), bytes_out.get(topic, 0.0))
        for topic, rate in bytes_in.items()
        if rate or bytes_out.get(topic)
    ]
    return sorted(found, key=lambda one: (-one.bytes_in_rate - one.bytes_out_rate, one.topic))


def _groups(pages: Sequence[MetricsPage]) -> list[GroupFigures]:
    """Committed offsets are the coordinator's, ends the leaders'; lags that no series of their own
    has come summed up from the coordinator, as the partition `other`.
    """
    ends: dict[Place, float] = {}
    for page in pages:
        for labels, value in page.labelled("logstore_partition_high_watermark"):
            place = (labels["topic"], labels["partition"])
            ends[place] = max(value, ends.get(place, 0.0))
    lags: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    members: dict[str, float] = defaultdict(float)
    for page in pages:
        for labels, value in page.labelled("logstore_group_members"):
            members[labels["group"]] += value
        for labels, committed in page.labelled("logstore_group_committed_offset"):
            end = ends.get((labels["topic"], labels["partition"]))
            lag = 0.0 if end is None else max(0.0, end - committed)
            lags[labels["group"]][labels["topic"]] += lag
        for labels, lag in page.labelled("logstore_group_lag_records"):
            if labels["partition"] == OTHER:
                lags[labels["group"]][labels["topic"]] += lag
    found = [
        GroupFigures(
            group,
            round(members.get(group, 0)),
            len(lags.get(group, ())),
            round(sum(lags.get(group, {}).values())),
        )
        for group in {*members, *lags}
    ]
    return sorted(found, key=lambda one: (-one.lag, one.group))
