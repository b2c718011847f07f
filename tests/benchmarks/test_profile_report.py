"""The report of a profile: the largest own costs first, by names a reader can look up."""

import cProfile
import json
from pathlib import Path

from benchmarks.profile_report import largest_costs, name_of, report


def test_the_largest_own_costs_come_first_with_their_shares() -> None:
    own = {
        ("/x/broker/a.py", 1, "small"): (9, 0.1),
        ("/x/broker/a.py", 2, "large"): (1, 0.6),
        ("~", 0, "<method 'send'>"): (5, 0.3),
    }

    costs = largest_costs(own, 2)

    assert [(cost.name, cost.calls) for cost in costs] == [
        ("broker.a:2 large", 1),
        ("<method 'send'>", 5),
    ]
    assert [round(cost.share, 2) for cost in costs] == [0.6, 0.3]


def test_functions_are_named_from_their_package_on() -> None:
    leader = "/any/logstore/epoch/leader.py"
    assert name_of((leader, 7, "append")) == "logstore.epoch.leader:7 append"
    assert name_of(("/any/logstore/broker/network/call.py", 7, "f")) == "broker.network.call:7 f"
    assert name_of(("/any/other.py", 7, "f")) == "other:7 f"


def test_each_broker_of_a_cluster_is_reported(tmp_path: Path) -> None:
    for broker in (1, 2):
        profile = cProfile.Profile()
        profile.runcall(sorted, range(100))
        path = tmp_path / f"broker {broker} of 2.prof"
        profile.dump_stats(path)
        path.with_suffix(".json").write_text(json.dumps({"loop": 1.0, "process": 1.5}))

    lines = list(report(tmp_path))

    reported = "event loop 1.0 CPU s (profiled), other threads 0.5"
    assert [line for line in lines if reported in line] == [
        f"broker 1 of 2: {reported}",
        f"broker 2 of 2: {reported}",
    ]
    assert sum("<built-in method builtins.sorted>" in line for line in lines) == 2


def test_a_profile_that_no_broker_left_is_reported_by_its_own_times(tmp_path: Path) -> None:
    profile = cProfile.Profile()
    profile.runcall(sorted, range(100))
    profile.dump_stats(tmp_path / "stream noop, Python workers 0.prof")

    first, *costs = report(tmp_path)

    assert first == "stream noop, Python workers 0: 0.0 s (profiled)"
    assert any("sorted" in line for line in costs)


def test_a_case_without_profiled_brokers_says_so(tmp_path: Path) -> None:
    assert [line.startswith("no broker of this case") for line in report(tmp_path)] == [True]
