"""Facts become findings: what is wrong comes first, says where, and what to do."""

from dataclasses import replace
from typing import Any

import pytest

from logstore.cli.decisions.doctor_facts import (
    BrokerFacts,
    CertificateFacts,
    ChainFacts,
    CompactionFacts,
    DamageFacts,
    Facts,
    GroupFacts,
    LeaseFacts,
    TableFacts,
)
from logstore.cli.decisions.doctor_findings import DAY_MS, Severity, findings_of, is_healthy
from logstore.errors import DISK_IS_FULL, FREE_SPACE
from logstore.formats.broker_row import BrokerStatus
from logstore.formats.chain_row import ChainStatus

ALIVE = BrokerFacts(1, 7, "a:9092", BrokerStatus.SERVING, True, 0, 4)
OPEN = ChainFacts(7, 1, ChainStatus.OPEN, None, "", 100, 0)
TABLE = TableFacts("orders", 5, 60_000, 60_000)
HEALTHY = Facts(
    version="1.0",
    known_level=1,
    log_level=1,
    store="s3://bucket/log",
    registry="dynamodb://t",
    probe_faults=(),
    brokers=[ALIVE],
    controller=LeaseFacts(1, True),
    chains=[OPEN],
    tables=[TABLE],
    compaction=CompactionFacts(1000, 0, ""),
    groups=[GroupFacts("billing", "Stable", 12)],
)


def test_a_healthy_log_has_only_lines_that_are_fine() -> None:
    findings = findings_of(HEALTHY)
    assert is_healthy(findings)
    assert {one.about for one in findings} == {
        *("objects", "rights", "brokers", "controller", "partitions"),
        *("clocks", "format", "trimming", "tables", "lag"),
    }
    assert all(not one.action for one in findings)


def test_on_a_full_disk_all_that_waits_for_it_says_so_and_nothing_else() -> None:
    silent = replace(ALIVE, is_advancing=False)
    full = replace(HEALTHY, no_room="free_bytes=0", probe_faults=None, brokers=[silent])
    first, *others = findings_of(full)

    assert (first.about, first.text, first.action) == (
        *("disk", f"{DISK_IS_FULL}: free_bytes=0"),
        FREE_SPACE,
    )
    assert {one.action for one in others if one.severity is Severity.BROKEN} == {FREE_SPACE}
    (rights,) = (one for one in others if one.about == "rights")
    assert rights.text == f"not tried: {DISK_IS_FULL}"


def test_what_could_not_be_looked_at_is_not_fine_too() -> None:
    findings = findings_of(replace(HEALTHY, unreadable={"rights": "no answer"}))
    assert [one.severity for one in findings if one.about == "rights"] == [Severity.BROKEN]


@pytest.mark.parametrize(
    ("changes", "severity", "about", "says"),
    [
        ({"probe_faults": ["not allowed: s3:DeleteObject: 403"]}, "broken", "rights", "s3:Delete"),
        ({"brokers": [replace(ALIVE, is_advancing=False)]}, "broken", "brokers", "silent"),
        ({"brokers": []}, "broken", "brokers", "no broker is alive"),
        ({"brokers": [replace(ALIVE, unreachable="refused")]}, "broken", "brokers", "refused"),
        (
            {"brokers": [replace(ALIVE, put_age_ms=9_000)]},
            "broken",
            "brokers",
            "waits for the store",
        ),
        (
            {"brokers": [ALIVE, replace(ALIVE, broker=2, is_advancing=False, led_count=0)]},
            *("risk", "brokers", "broker 2"),
        ),
        (
            {"brokers": [ALIVE, replace(ALIVE, broker=2, status=BrokerStatus.FENCED)]},
            *("broken", "brokers", "fenced"),
        ),
        (
            {"brokers": [ALIVE, replace(ALIVE, broker=2, status=BrokerStatus.FENCED, led_count=0)]},
            *("risk", "brokers", "broker 2 at a:9092 was taken for dead"),
        ),
        (
            {"certificates": [CertificateFacts("https://s3", 13 * DAY_MS)]},
            *("risk", "certs", "certificate of https://s3 ends soon: days=13"),
        ),
        (
            {"certificates": [CertificateFacts("https://s3", -2 * DAY_MS)]},
            *("broken", "certs", "certificate of https://s3 has ended: days_ago=2"),
        ),
        ({"controller": None}, "broken", "controller", "no broker acts"),
        ({"controller": LeaseFacts(1, False)}, "broken", "controller", "no broker acts"),
        ({"leaderless": [("orders", 3)]}, "broken", "partitions", "orders-3"),
        ({"orphans": [("ab12", 0)]}, "risk", "partitions", "ab12-0"),
        ({"chains": [replace(OPEN, clock_ahead_ms=3_600_000)]}, "risk", "clocks", "ahead of"),
        ({"chains": [replace(OPEN, clock_ahead_ms=-3_600_000)]}, "risk", "clocks", "behind"),
        ({"log_level": 2}, "broken", "format", "newer"),
        (
            {"chains": [ChainFacts(3, 1, ChainStatus.SEALED, "why", "orders", None, 9 * 10**7)]},
            *("risk", "trimming", "held by topic orders"),
        ),
        ({"tables": [replace(TABLE, waiting_ms=3_600_000)]}, "risk", "tables", "orders is behind"),
        ({"compaction": CompactionFacts(None, 3, "no room")}, "risk", "tables", "3: no room"),
        (
            {"damage": [DamageFacts("damaged", "k", "byte 9", "copy")]},
            "broken",
            "objects",
            "byte 9",
        ),
        ({"unreadable": {"tables": "bad crc"}}, "broken", "tables", "bad crc"),
        ({"log_level": 2}, "broken", "format", "the log is newer"),
        ({"known_level": 2, "log_level": 2}, "broken", "format", "broker 1 reads levels up to 1"),
    ],
)
def test_each_fault_is_found_with_what_to_do(
    changes: dict[str, Any], severity: str, about: str, says: str
) -> None:
    findings = findings_of(replace(HEALTHY, **changes))
    assert not is_healthy(findings)
    (fault,) = [one for one in findings if one.about == about and says in one.text]
    assert fault.severity == severity
    assert fault.action
    ranks = [list(Severity).index(one.severity) for one in findings]
    assert ranks == sorted(ranks), "the worst comes first"


def test_a_chain_that_is_held_for_an_hour_or_is_open_is_no_fault() -> None:
    for held in (replace(OPEN, hold="data", topic="t", age_ms=10**9), replace(OPEN, hold="data")):
        findings = findings_of(replace(HEALTHY, chains=[held]))
        assert is_healthy(findings)
        assert any("1 by data" in one.text for one in findings)


def test_a_certificate_with_weeks_left_is_shown_and_no_fault() -> None:
    facts = replace(HEALTHY, certificates=[CertificateFacts("https://s3", 90 * DAY_MS)])
    findings = findings_of(facts)
    assert is_healthy(findings)
    assert "ends in 90 days" in next(one.text for one in findings if one.about == "certs")


def test_limits_of_clients_are_shown_and_no_fault() -> None:
    limits = ["client-id=app producer_byte_rate=2000", "user= request_percentage=50"]
    findings = findings_of(replace(HEALTHY, quotas=limits))
    assert is_healthy(findings)
    (line,) = [one.text for one in findings if one.about == "quotas"]
    assert all(limit in line for limit in limits)


def test_versions_of_brokers_and_a_level_that_may_come_are_shown() -> None:
    brokers = [replace(ALIVE, version="0.2.0", level_max=2), replace(ALIVE, broker=2)]
    findings = findings_of(replace(HEALTHY, brokers=brokers, known_level=2))
    assert is_healthy(findings)
    (line,) = [one.text for one in findings if one.about == "format"]
    assert "brokers=0.1.0 or older, 0.2.0" in line
    assert "logstore upgrade" in line


def test_what_was_not_looked_at_is_said_and_no_fault() -> None:
    findings = findings_of(replace(HEALTHY, damage=None, probe_faults=None, groups=()))
    assert is_healthy(findings)
    texts = " ".join(one.text for one in findings)
    assert "logstore fsck" in texts
    assert "--read-only" in texts
