"""Faults that the proxy applies to a request: pure, from a seed and rules.

A draw depends on the seed, the request and how often the same request came before, never on
timing, so two runs that ask the same get the same. Of the rules, tried in order, one may apply.

    not applied             500  503  507  409  403  reset  hang
    applied, answer lost    applied-500  applied-503  applied-reset  applied-hang
    applied afterwards      late: the connection is reset at once, the request goes on later
    answered                slow: later  cut: half of the body, then a reset

As text, for the command line: the fault, then any of `rate=0.1 methods=PUT,POST path=/chains/
from=5 until=20 most=3 seconds=2`; how late or slow is `seconds`. Latency is log-normal: median and
p99 of a tiny request and of one of 4 MiB, straight lines between. Defaults: S3 in one region; as
text, for a method: `GET=25,90,140,370`.
"""

import math
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field, fields
from typing import Any, Literal, get_args

from logstore.errors import Invalid

Fault = Literal[
    "500",
    "503",
    "507",
    "409",
    "403",
    "reset",
    "hang",
    "applied-500",
    "applied-503",
    "applied-reset",
    "applied-hang",
    "late",
    "slow",
    "cut",
]
FAULTS: tuple[Fault, ...] = get_args(Fault)

SEEN_MAX = 1_000_000

_LARGE_BYTES = 4 * 1024 * 1024
_P99 = 2.3263  # standard deviations above the median


@dataclass(frozen=True, slots=True)
class FaultRule:
    """One fault: how often, to what, when. No `methods` means all; `most` 0 means no limit."""

    fault: Fault
    rate: float = 1.0
    methods: tuple[str, ...] = ()
    path: str = ""
    """Part of the request's target, or of its X-Amz-Target."""
    from_s: float = 0.0
    until_s: float = math.inf
    most: int = 0
    seconds: float = 2.0

    def __post_init__(self) -> None:
        if self.fault not in FAULTS:
            raise Invalid(f"unknown fault: {self.fault}; there are {', '.join(FAULTS)}")
        if not 0 <= self.rate <= 1 or self.most < 0 or self.seconds < 0:
            raise Invalid(f"out of range: rate={self.rate} most={self.most} seconds={self.seconds}")

    @classmethod
    def of(cls, text: str) -> "FaultRule":
        """From the form above. Raises `Invalid`."""
        fault, *settings = text.split() or [""]
        values: dict[str, Any] = {"fault": fault}
        for setting in settings:
            name, _, value = setting.partition("=")
            values[{"from": "from_s", "until": "until_s"}.get(name, name)] = value
        return cls.of_fields(values)

    @classmethod
    def of_fields(cls, values: Mapping[str, Any]) -> "FaultRule":
        """From names and values, JSON's or texts. Raises `Invalid`."""
        known = {one.name for one in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise Invalid(f"unknown in a rule: {unknown[0]}; there are {', '.join(sorted(known))}")
        methods = values.get("methods", ())
        try:
            return cls(
                fault=values["fault"],
                rate=float(values.get("rate", 1)),
                methods=tuple(methods.split(",")) if isinstance(methods, str) else tuple(methods),
                path=str(values.get("path", "")),
                from_s=float(values.get("from_s", 0)),
                until_s=float(values.get("until_s") or math.inf),
                most=int(values.get("most", 0)),
                seconds=float(values.get("seconds", 2)),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Invalid(f"not a rule: {error} in {dict(values)}") from error

    def fields(self) -> dict[str, Any]:
        """As JSON has it, which knows no infinity."""
        return {**asdict(self), "until_s": self.until_s if math.isfinite(self.until_s) else None}


@dataclass(frozen=True, slots=True)
class Spread:
    """Milliseconds: median and p99 of a tiny request, then of one of 4 MiB."""

    tiny_p50: float
    tiny_p99: float
    large_p50: float
    large_p99: float

    def seconds(self, size_bytes: int, deviations: float) -> float:
        part = size_bytes / _LARGE_BYTES
        median = self.tiny_p50 + (self.large_p50 - self.tiny_p50) * part
        tiny = math.log(self.tiny_p99 / self.tiny_p50) / _P99
        large = math.log(self.large_p99 / self.large_p50) / _P99
        sigma = tiny + (large - tiny) * min(1.0, part)
        return median / 1000 * math.exp(deviations * sigma)


def spread_of(text: str) -> tuple[str, Spread]:
    """(method, its spread) from the form above. Raises `Invalid`."""
    method, _, figures = text.partition("=")
    try:
        spread = Spread(*(float(figure) for figure in figures.split(",")))
    except (TypeError, ValueError) as error:
        raise Invalid(f"not METHOD=P50,P99,P50,P99 in milliseconds: {text!r}") from error
    if not method.isupper() or min(astuple(spread)) <= 0:
        raise Invalid(f"not METHOD=P50,P99,P50,P99 in milliseconds: {text!r}")
    return method, spread


PUT_SPREAD = Spread(28, 81, 141, 254)
GET_SPREAD = Spread(25, 90, 140, 370)
OTHER_SPREAD = Spread(25, 60, 25, 60)
ROW_SPREAD = Spread(4, 15, 40, 90)


@dataclass(frozen=True, slots=True)
class ProxiedRequest:
    """A request as the plan sees it."""

    method: str
    target: str
    operation: str = ""
    """X-Amz-Target: DynamoDB's name of the call."""


@dataclass(frozen=True, slots=True)
class RequestFate:
    """The fault rule of one request, if any, and its latency in standard deviations."""

    rule: FaultRule | None
    deviations: float


@dataclass(slots=True)
class FaultPlan:
    """Decides one request after the other. `latency_scale` 0 adds no latency."""

    seed: int
    rules: tuple[FaultRule, ...] = ()
    latency_scale: float = 0.0
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    """By method, in place of the defaults."""
    _seen: Counter[ProxiedRequest] = field(default_factory=Counter)
    _used: Counter[FaultRule] = field(default_factory=Counter)

    def fate(self, asked: ProxiedRequest, at_s: float) -> RequestFate:
        """`at_s` is the time since the rules were set."""
        if len(self._seen) >= SEEN_MAX:
            self._seen.clear()
        self._seen[asked] += 1
        rng = random.Random(
            f"{self.seed} {asked.method} {asked.target} {asked.operation} {self._seen[asked]}"
        )
        deviations = rng.gauss(0, 1)
        for rule in self.rules:
            point = rng.random()  # for each rule, so that none shifts the draws of the next
            if _applies(rule, asked, at_s) and point < rule.rate and self._may(rule):
                self._used[rule] += 1
                return RequestFate(rule, deviations)
        return RequestFate(None, deviations)

    def latency_s(self, asked: ProxiedRequest, size_bytes: int, fate: RequestFate) -> float:
        """How long the whole exchange takes; `size_bytes` of its larger body."""
        if not self.latency_scale:
            return 0.0
        known = {**_SPREADS, **self.spreads}
        spread = ROW_SPREAD if asked.operation else known.get(asked.method, OTHER_SPREAD)
        return self.latency_scale * spread.seconds(size_bytes, fate.deviations)

    def _may(self, rule: FaultRule) -> bool:
        return not rule.most or self._used[rule] < rule.most


_SPREADS = {"PUT": PUT_SPREAD, "GET": GET_SPREAD}


def _applies(rule: FaultRule, asked: ProxiedRequest, at_s: float) -> bool:
    return (
        (not rule.methods or asked.method in rule.methods)
        and (rule.path in asked.target or rule.path in asked.operation)
        and rule.from_s <= at_s < rule.until_s
    )
