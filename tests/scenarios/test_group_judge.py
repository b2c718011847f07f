"""The judge of group series: silent about a group that did right, and not about any other."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.scenarios.harness.group_journal import Deed, MemberJournal, of_java, read_member
from tests.scenarios.harness.group_judge import (
    Absence,
    GroupVerdict,
    judge,
    owners_at_the_end,
)
from tests.scenarios.harness.group_watch import Fetched, Generation, Recorded

ENDS = {0: 4, 1: 2}
DEEDS = (
    Deed("a", 1.0, "assigned", [[0], [1]]),
    Deed("a", 2.0, "read", [[0, 0, 1], [1, 0, 1]]),
    Deed("a", 2.1, "commits", [[0, 2], [1, 2]]),
    Deed("a", 2.2, "committed", [[0, 2], [1, 2]]),
    Deed("a", 3.0, "revoked", [[0], [1]]),
    Deed("b", 4.0, "assigned", [[0]]),
    Deed("a", 4.0, "assigned", [[1]]),
    Deed("b", 5.0, "read", [[0, 2, 3]]),
    Deed("b", 5.1, "commits", [[0, 4]]),
    Deed("b", 5.2, "committed", [[0, 4]]),
)
FETCHED = (
    Fetched(0.5, 0.6, {}),
    Fetched(2.5, 2.6, {0: 2, 1: 2}),
    Fetched(6.0, 6.1, {0: 4, 1: 2}),
)
RECORDS = (
    Generation(1, None),
    Generation(1, {"a": [0, 1]}),
    Recorded(0, 2),
    Recorded(1, 2),
    Generation(2, None),
    Generation(2, {"a": [1], "b": [0]}),
    Recorded(0, 4),
)


def judged(
    deeds: Sequence[Deed] = DEEDS,
    fetched: Sequence[Fetched] = FETCHED,
    records: Sequence[Generation | Recorded] = RECORDS,
    absences: Sequence[Absence] = (),
) -> GroupVerdict:
    return judge(deeds, fetched, records, ENDS, absences, calm_s=5.0)


def test_a_group_that_did_right() -> None:
    verdict = judged()

    assert not verdict.anomalies, verdict.examples
    assert (verdict.delivered, verdict.delivered_again) == (6, 0)
    assert (verdict.generations, verdict.commits_accepted) == (2, 2)
    assert verdict.longest_unowned_s == 1.0


def test_records_may_be_written_and_read_again_if_they_were_not_committed() -> None:
    uncommitted = Deed("b", 5.05, "revoked", [[0]]), Deed("b", 5.06, "assigned", [[0]])
    again = replace(DEEDS[7], at_s=5.07)

    verdict = judged(
        (*DEEDS[:8], *uncommitted, again, *DEEDS[8:]), records=(*RECORDS, *RECORDS[5:])
    )

    assert not verdict.anomalies, verdict.examples
    assert verdict.delivered_again == 2


def test_an_answer_that_a_frozen_member_reads_late_is_of_the_commit_before_it_froze() -> None:
    """Although the answer before that one was noted after the last commit began."""
    deeds = (
        *DEEDS[:3],
        Deed("a", 2.19, "read", [[0, 2, 2]]),
        Deed("a", 2.19, "commits", [[0, 3]]),
        DEEDS[3],
        Deed("b", 4.0, "assigned", [[0]]),
        Deed("b", 5.0, "read", [[0, 3, 3]]),
        *DEEDS[8:],
        Deed("a", 5.6, "committed", [[0, 3]]),
        Deed("a", 5.7, "revoked", [[0], [1]]),
        Deed("a", 5.8, "assigned", [[1]]),
    )

    verdict = judged(deeds, absences=[Absence("a", 2.3, 5.5)])

    assert not verdict.anomalies, verdict.examples


@pytest.mark.parametrize(
    ("kind", "deed"),
    [
        ("back", Deed("b", 5.3, "committed", [[0, 3]])),
        ("ahead", Deed("b", 5.3, "committed", [[0, 5]])),
        ("ahead", Deed("b", 5.3, "read", [[0, 4, 4]])),
        ("hole", Deed("b", 5.3, "read", [[0, 3, 3]])),
        ("hole", Deed("c", 5.3, "read", [[0, 3, 3]])),
        ("resumed", Deed("a", 5.3, "read", [[1, 0, 1]])),
        ("unowned", Deed("b", 5.3, "revoked", [[0]])),
        ("owners", Deed("a", 5.3, "committed", [[0, 4]])),
    ],
)
def test_what_a_member_did_wrong(kind: str, deed: Deed) -> None:
    assert judged((*DEEDS, deed)).anomalies[kind]


@pytest.mark.parametrize(
    ("kind", "fetched"),
    [
        ("forgotten", Fetched(7.0, 7.1, {0: 2, 1: 2})),
        ("back", Fetched(7.0, 7.1, {0: 2, 1: 2})),
        ("forgotten", Fetched(7.0, 7.1, {0: 4})),
        ("ahead", Fetched(7.0, 7.1, {0: 5, 1: 2})),
    ],
)
def test_what_was_reported_wrong(kind: str, fetched: Fetched) -> None:
    assert judged(fetched=(*FETCHED, fetched)).anomalies[kind]


@pytest.mark.parametrize(
    ("kind", "record"),
    [
        ("generation", Generation(1, {"a": [0, 1]})),
        ("generation", Generation(2, {"b": [0]})),
        ("owners", Generation(3, {"a": [0, 1], "b": [0]})),
        ("back", Recorded(0, 3)),
        ("ahead", Recorded(0, 5)),
        ("forgotten", Recorded(0, None)),
    ],
)
def test_what_was_recorded_wrong(kind: str, record: Generation | Recorded) -> None:
    assert judged(records=(*RECORDS, record)).anomalies[kind]


def test_a_record_that_no_member_got() -> None:
    assert judged([deed for deed in DEEDS if deed.at_s != 2.0]).anomalies["missing"]


def test_what_a_dead_member_had_is_unassigned() -> None:
    assert judged(absences=[Absence("b", 5.5)]).anomalies == {"unowned": 1}


def test_a_frozen_member_has_again_what_it_can_commit() -> None:
    late = Deed("b", 5.9, "committed", [[0, 4]])
    frozen = Absence("b", 5.5, 5.8)

    assert judged(absences=[frozen]).anomalies == {"unowned": 1}
    assert not judged((*DEEDS, late), absences=[frozen]).anomalies


def test_a_commit_answered_after_a_thawed_member_gave_up_its_partitions_gives_none_back() -> None:
    deeds = (
        *DEEDS,
        Deed("b", 5.9, "assigned", [[0]]),
        Deed("b", 6.0, "revoked", [[0]]),
        Deed("b", 6.1, "committed", [[0, 4]]),
        Deed("a", 6.2, "assigned", [[0]]),
    )

    assert owners_at_the_end(deeds, [Absence("b", 5.5, 5.8)], ENDS)[0] == {"a"}


def test_a_group_between_two_assignments_is_not_at_rest() -> None:
    """One member has given up what it owned, to join again; the other has not heard of it yet."""
    rejoins = Deed("b", 6.0, "revoked", [[0]])
    joined = Deed("b", 6.5, "assigned", [[0]])

    assert owners_at_the_end(DEEDS, (), ENDS) == {0: {"b"}, 1: {"a"}}
    assert owners_at_the_end((*DEEDS, rejoins), (), ENDS) == {0: set(), 1: {"a"}}
    assert owners_at_the_end((*DEEDS, rejoins, joined), (), ENDS) == {0: {"b"}, 1: {"a"}}


def test_how_long_it_took_until_all_was_owned() -> None:
    rejoins = Deed("b", 6.0, "revoked", [[0]])
    joined = Deed("b", 6.5, "assigned", [[0]])

    assert judged((*DEEDS, rejoins, joined)).owned_again_s == 1.5
    assert judged((*DEEDS, rejoins)).owned_again_s == float("inf")


def test_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    journal = tmp_path / "a.journal"
    MemberJournal(journal).note("assigned", [[0]])
    with journal.open("a") as file:
        file.write('{"at": 1.0, "di')

    assert [deed.did for deed in read_member("a", journal)] == ["assigned"]


def test_a_member_of_java_tells_the_same_in_its_own_words() -> None:
    part = '{"topic":"t","partition":3'
    lines = (
        "not of its events",
        f'{{"timestamp":1000,"name":"partitions_assigned","partitions":[{part}}}]}}',
        f'{{"timestamp":1001,"name":"records_consumed","count":2,"partitions":'
        f'[{part},"count":2,"minOffset":5,"maxOffset":6}}]}}',
        f'{{"timestamp":1002,"name":"offsets_committed","success":true,"offsets":'
        f'[{part},"offset":7}}]}}',
        '{"timestamp":1003,"name":"shutdown_complete"}',
    )

    reported = [(deed.did, deed.parts) for deed in of_java("j", lines)]

    assert reported == [
        ("assigned", [[3]]),
        ("read", [[3, 5, 6]]),
        ("commits", [[3, 7]]),
        ("committed", [[3, 7]]),
    ]
