"""The fault proxy's decisions: which request, how often, when, how slow."""

import statistics
from collections import Counter

import pytest

from logstore.errors import Invalid
from logstore.testing.fault_plan import (
    FAULTS,
    FaultPlan,
    FaultRule,
    ProxiedRequest,
    Spread,
    spread_of,
)


def faults_of(
    plan: FaultPlan, requests: list[ProxiedRequest], at_s: float = 0.0
) -> list[str | None]:
    fates = [plan.fate(asked, at_s) for asked in requests]
    return [fate.rule.fault if fate.rule else None for fate in fates]


def puts(count: int) -> list[ProxiedRequest]:
    return [ProxiedRequest("PUT", f"/bucket/k/{number}") for number in range(count)]


def test_a_seed_and_the_requests_decide_and_nothing_else() -> None:
    def play(
        seed: int, requests: list[ProxiedRequest]
    ) -> Counter[tuple[ProxiedRequest, str | None]]:
        plan = FaultPlan(seed, (FaultRule("500", rate=0.3), FaultRule("applied-reset", rate=0.3)))
        return Counter(zip(requests, faults_of(plan, requests), strict=True))

    requests = [*puts(50), *puts(50)]
    assert play(1, requests) == play(1, requests) == play(1, requests[::-1])
    assert play(1, requests) != play(2, requests)


def test_a_rate_is_kept() -> None:
    found = Counter(faults_of(FaultPlan(1, (FaultRule("reset", rate=0.1),)), puts(5_000)))
    assert 400 < found["reset"] < 600


def test_a_rule_is_for_its_methods_paths_operations_and_times() -> None:
    rules = (
        FaultRule("500", methods=("PUT", "DELETE"), path="/chains/"),
        FaultRule("503", path="UpdateItem"),
        FaultRule("403", from_s=10, until_s=20),
    )
    plan = FaultPlan(1, rules)
    assert faults_of(
        plan, [ProxiedRequest("PUT", "/b/chains/1"), ProxiedRequest("GET", "/b/chains/1")]
    ) == [
        "500",
        None,
    ]
    assert faults_of(plan, [ProxiedRequest("POST", "/", "DynamoDB_20120810.UpdateItem")]) == ["503"]
    for at_s, expected in ((9.9, None), (10, "403"), (19.9, "403"), (20, None)):
        assert faults_of(plan, [ProxiedRequest("GET", "/b/k")], at_s) == [expected]


def test_a_rule_may_be_used_up() -> None:
    plan = FaultPlan(1, (FaultRule("hang", most=2),))
    assert faults_of(plan, puts(4)) == ["hang", "hang", None, None]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_rule_reads_as_it_is_written(fault: str) -> None:
    text = f"{fault} rate=0.5 methods=PUT,GET path=/chains/ from=1 until=2.5 most=3 seconds=4"
    rule = FaultRule.of(text)
    assert FaultRule.of_fields(rule.fields()) == rule
    assert rule.methods == ("PUT", "GET")
    assert (rule.from_s, rule.until_s, rule.most, rule.seconds) == (1, 2.5, 3, 4)
    assert FaultRule.of_fields(FaultRule.of(fault).fields()) == FaultRule.of(fault)


@pytest.mark.parametrize(
    "text", ["", "501", "500 rate=2", "500 rate=x", "500 often=1", "500 most=-1", "500 rate"]
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        FaultRule.of(text)


@pytest.mark.parametrize(
    ("asked", "size_bytes", "p50_ms", "p99_ms"),
    [
        (ProxiedRequest("PUT", "/b/k"), 0, 28, 81),
        (ProxiedRequest("PUT", "/b/k"), 4 << 20, 141, 254),
        (ProxiedRequest("GET", "/b/k"), 4 << 20, 140, 370),
        (ProxiedRequest("DELETE", "/b/k"), 0, 25, 60),
        (ProxiedRequest("POST", "/", "DynamoDB_20120810.GetItem"), 0, 4, 15),
    ],
)
def test_latency_is_that_of_the_service(
    asked: ProxiedRequest, size_bytes: int, p50_ms: float, p99_ms: float
) -> None:
    plan = FaultPlan(1, latency_scale=1.0)
    drawn = sorted(
        plan.latency_s(asked, size_bytes, plan.fate(asked, 0.0)) * 1000 for _ in range(4_000)
    )
    assert statistics.median(drawn) == pytest.approx(p50_ms, rel=0.1)
    assert drawn[3960] == pytest.approx(p99_ms, rel=0.2)
    assert FaultPlan(1).latency_s(asked, size_bytes, plan.fate(asked, 0.0)) == 0


def test_latency_of_a_method_may_be_set() -> None:
    get = ProxiedRequest("GET", "/b/k")
    plan = FaultPlan(1, latency_scale=1.0, spreads=dict([spread_of("GET=5,9,50,90")]))
    drawn = [plan.latency_s(get, 0, plan.fate(get, 0.0)) * 1000 for _ in range(1_000)]

    assert spread_of("GET=5,9,50,90") == ("GET", Spread(5, 9, 50, 90))
    assert statistics.median(drawn) == pytest.approx(5, rel=0.1)


@pytest.mark.parametrize("text", ["", "GET", "GET=1,2,3", "GET=1,2,3,0", "GET=a,2,3,4", "=1,2,3,4"])
def test_a_spread_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        spread_of(text)
