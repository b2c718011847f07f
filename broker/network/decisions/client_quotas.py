"""Client quotas in force at one broker: who is throttled now, and for how long. Pure.

Each quota counts what this broker does for those who share it (`quota_rules.Limit`), as in Kafka:
the quota of a client of two brokers is twice as much. A bounded number of those is tracked; what is
as good as new is forgotten, and beyond the bound the one that was used longest ago is.

Without quotas a request asks `is_active`, or `limits_time`, and nothing else.
"""

from collections import Counter, OrderedDict

from broker.network.decisions.quota_rules import CLIENT_KINDS, Limit, QuotaKind, QuotaRules
from broker.network.decisions.rates import BY_DEFAULT, TokenBucket, WindowedRate, Windows
from logstore.config.address_overrides import plain_address
from logstore.formats.quota_row import Quotas

TRACKED_MAX = 10_000
LOOKED_AT = 2
"""Of the tracked ones used longest ago, at each new one."""

USER_TYPE = "User:"
PERCENT = 100.0

_Key = tuple[QuotaKind, str | None, str | None]


class ClientQuotas:
    def __init__(
        self,
        tracked_max: int = TRACKED_MAX,
        *,
        windows: Windows = BY_DEFAULT,
        controller_windows: Windows = BY_DEFAULT,
    ) -> None:
        """`controller_windows`: those of changes of the cluster."""
        self.is_active = False
        """Whether there is a quota of users or client ids."""
        self.limits_time = False
        """Whether there is one of their request time."""
        self.limits_connections = False
        self.entity_count = 0
        self.throttled_counts: Counter[QuotaKind] = Counter()
        """Requests, connections and changes that were throttled."""
        self.throttled_s: dict[QuotaKind, float] = dict.fromkeys(QuotaKind, 0.0)
        """How long these were."""
        self._tracked_max = tracked_max
        self._windows = windows
        self._controller_windows = controller_windows
        self._rules = QuotaRules({})
        self._limits: dict[_Key, Limit | None] = {}
        """Of clients that were looked up, by kind, principal and client id."""
        self._rates: OrderedDict[_Key, WindowedRate | TokenBucket] = OrderedDict()

    def apply(self, quotas: Quotas) -> None:
        """From now on these are in force. What was done before counts."""
        rules = self._rules = QuotaRules(quotas)
        self._limits.clear()
        self.entity_count = len(quotas)
        self.is_active = any(rules.has(kind) for kind in CLIENT_KINDS)
        self.limits_time = rules.has(QuotaKind.REQUEST)
        self.limits_connections = rules.has(QuotaKind.CONNECTION)

    @property
    def tracked_count(self) -> int:
        return len(self._rates)

    def limit_of(self, kind: QuotaKind, principal: str, client_id: str | None) -> Limit | None:
        key = (kind, principal, client_id)
        limits = self._limits
        if key in limits:
            return limits[key]
        if len(limits) >= self._tracked_max:
            limits.clear()
        limit = self._rules.limit_of(kind, principal.removeprefix(USER_TYPE), client_id or "")
        limits[key] = limit
        return limit

    # Bytes and time

    def produced_ms(
        self, principal: str, client_id: str | None, byte_count: int, now_s: float
    ) -> int:
        """Count bytes of a Produce; how long its client is throttled."""
        return self._added_ms(QuotaKind.PRODUCE, principal, client_id, byte_count, now_s)

    def fetched_ms(
        self, principal: str, client_id: str | None, byte_count: int, now_s: float
    ) -> tuple[int, bool]:
        """How long a client is throttled that is to get so many bytes, and whether it gets them.

        They count if it does. It does where it had nothing lately, however much it is: a batch that
        is larger than the quota of all windows would never be read else.
        """
        limit = self.limit_of(QuotaKind.FETCH, principal, client_id)
        if limit is None:
            return 0, True
        rate = self._rate_of(QuotaKind.FETCH, limit, now_s)
        is_first = rate.total(now_s) <= 0
        rate.add(byte_count, now_s)
        throttle_s = rate.throttle_s(limit.rate, now_s)
        is_served = is_first or not throttle_s
        if not is_served:
            rate.add(-byte_count, now_s)
        return self._noted_ms(QuotaKind.FETCH, throttle_s), is_served

    def fetch_bytes_max(self, principal: str, client_id: str | None, bytes_max: int) -> int:
        """Bytes to answer a Fetch with: no more than the quota of all windows."""
        limit = self.limit_of(QuotaKind.FETCH, principal, client_id)
        if limit is None:
            return bytes_max
        return min(bytes_max, int(limit.rate * self._windows.burst_s))

    def used_time(self, principal: str, client_id: str | None, took_s: float, now_s: float) -> None:
        """A request took so long on the event loop, or in a thread."""
        limit = self.limit_of(QuotaKind.REQUEST, principal, client_id)
        if limit is not None:
            self._rate_of(QuotaKind.REQUEST, limit, now_s).add(PERCENT * took_s, now_s)

    def request_ms(self, principal: str, client_id: str | None, now_s: float) -> int:
        """How long a client is throttled for the time that its requests took: a window at most."""
        limit = self.limit_of(QuotaKind.REQUEST, principal, client_id)
        if limit is None:
            return 0
        rate = self._rate_of(QuotaKind.REQUEST, limit, now_s)
        throttle_s = min(rate.throttle_s(limit.rate, now_s), self._windows.size_s)
        return self._noted_ms(QuotaKind.REQUEST, throttle_s)

    def _added_ms(
        self, kind: QuotaKind, principal: str, client_id: str | None, amount: float, now_s: float
    ) -> int:
        limit = self.limit_of(kind, principal, client_id)
        if limit is None:
            return 0
        rate = self._rate_of(kind, limit, now_s)
        rate.add(amount, now_s)
        return self._noted_ms(kind, rate.throttle_s(limit.rate, now_s))

    # Changes of the cluster

    def mutation_ms(self, principal: str, client_id: str | None, now_s: float) -> int:
        """How long until this client may change the cluster again; 0: it may."""
        limit = self.limit_of(QuotaKind.MUTATION, principal, client_id)
        if limit is None:
            return 0
        return _ms(self._bucket_of(limit, now_s).throttle_s(limit.rate, now_s))

    def mutated(
        self, principal: str, client_id: str | None, partition_count: int, now_s: float
    ) -> None:
        limit = self.limit_of(QuotaKind.MUTATION, principal, client_id)
        if limit is not None:
            self._bucket_of(limit, now_s).take(partition_count, limit.rate, now_s)

    def note_mutations(self, throttle_ms: int) -> None:
        """A request that changes the cluster is throttled."""
        self._noted_ms(QuotaKind.MUTATION, throttle_ms / 1000)

    # Connections

    def connected_s(self, host: str, now_s: float) -> float:
        """How long one more connection of `host` is not served before it is closed; 0: it stays.

        One that stays counts. A window at most, as in Kafka.
        """
        address = _address(host)
        limit = self._rules.address_rate(address)
        if limit is None:
            return 0.0
        rate = self._rate_of(QuotaKind.CONNECTION, Limit(limit, None, address), now_s)
        rate.add(1, now_s)
        throttle_s = min(rate.throttle_s(limit, now_s), self._windows.size_s)
        if throttle_s:
            rate.add(-1, now_s)
            self._noted_ms(QuotaKind.CONNECTION, throttle_s)
        return throttle_s

    # Tracking

    def _rate_of(self, kind: QuotaKind, limit: Limit, now_s: float) -> WindowedRate:
        key = (kind, limit.user, limit.client_id)
        rate = self._rates.get(key)
        if not isinstance(rate, WindowedRate):
            rate = WindowedRate(self._windows)
            self._track(key, rate, now_s)
        else:
            self._rates.move_to_end(key)
        return rate

    def _bucket_of(self, limit: Limit, now_s: float) -> TokenBucket:
        key = (QuotaKind.MUTATION, limit.user, limit.client_id)
        bucket = self._rates.get(key)
        if not isinstance(bucket, TokenBucket):
            bucket = TokenBucket(limit.rate, now_s, self._controller_windows)
            self._track(key, bucket, now_s)
        else:
            self._rates.move_to_end(key)
        return bucket

    def _track(self, key: _Key, rate: WindowedRate | TokenBucket, now_s: float) -> None:
        for _ in range(min(LOOKED_AT, len(self._rates))):
            oldest, its = next(iter(self._rates.items()))
            if len(self._rates) < self._tracked_max and not its.is_idle(now_s):
                break
            del self._rates[oldest]
        self._rates[key] = rate

    def _noted_ms(self, kind: QuotaKind, throttle_s: float) -> int:
        throttle_ms = _ms(throttle_s)
        if throttle_ms:
            self.throttled_counts[kind] += 1
            self.throttled_s[kind] += throttle_s
        return throttle_ms


def _ms(seconds: float) -> int:
    """Rounded as Kafka does: below half a millisecond is nothing."""
    return round(seconds * 1000)


def _address(host: str) -> str:
    try:
        return plain_address(host)
    except ValueError:  # a test's pair of sockets has no address
        return host
