"""Judges what a consumer group did: pure, over what its members and its watch have seen.

back         a committed offset went back: as fetched, as recorded, or as acknowledged
ahead        a committed offset lies beyond what was asked for, or beyond the log's end
forgotten    an offset was answered, or recorded, that is older than an acknowledged commit
resumed      a member began elsewhere than at the committed offset
hole         a member passed over records, or read some again, within one assignment
owners       a partition had two owners in a generation, or two whose commits were accepted
generation   a number was given twice, or went down
missing      a record was delivered to no member
unowned      partitions without an owner, or with two, at the end
restless     the group did not come to rest before the deadline
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.scenarios.harness.group_journal import Deed
from tests.scenarios.harness.group_watch import Fetched, Generation, Recorded

Owners = dict[int, set[str]]
"""Members by partition."""
Begun = dict[tuple[str, int, int], float]
"""When a commit began, by member, partition and offset: an answer may be noted after the next one
began (times of Java's member are rounded up)."""
EXAMPLES_MAX = 5
AWOKEN_S = 15.0
"""After it was frozen, a member may learn late of an assignment that is over."""


@dataclass(frozen=True, slots=True)
class Absence:
    """From `begin_s` on the member is silent; it died, left, or was frozen until `end_s`."""

    member: str
    begin_s: float
    end_s: float = float("inf")


@dataclass(slots=True)
class GroupVerdict:
    anomalies: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    delivered: int = 0
    delivered_again: int = 0
    commits_accepted: int = 0
    commits_refused: int = 0
    generations: int = 0
    longest_unowned_s: float = 0.0
    owned_again_s: float = 0.0
    """From the beginning of calm until every partition had an owner; infinite: not at the end."""

    def found(self, kind: str, text: str) -> None:
        self.anomalies[kind] += 1
        examples = self.examples.setdefault(kind, [])
        if len(examples) < EXAMPLES_MAX:
            examples.append(text)


class Ceiling:
    """The highest offset up to a moment."""

    def __init__(self, points: Iterable[tuple[float, int]]) -> None:
        self._times: list[float] = []
        self._highest: list[int] = []
        for at_s, offset in sorted(points):
            self._times.append(at_s)
            self._highest.append(max(offset, self._highest[-1] if self._highest else 0))

    def before(self, at_s: float) -> int:
        at = bisect_left(self._times, at_s)
        return self._highest[at - 1] if at else 0


def judge(
    deeds: Sequence[Deed],
    fetched: Sequence[Fetched],
    records: Sequence[Generation | Recorded],
    ends: Mapping[int, int],
    absences: Sequence[Absence],
    calm_s: float,
) -> GroupVerdict:
    """`ends`: where each partition's log ends, all of it committed when the group was stopped."""
    verdict = GroupVerdict()
    deeds = sorted(deeds, key=lambda deed: deed.at_s)
    acked, asked = _ceilings(deeds, "committed"), _ceilings(deeds, "commits")
    _judge_commits(deeds, acked, ends, verdict)
    _judge_fetched(fetched, acked, asked, ends, verdict)
    _judge_records(records, ends, verdict)
    _judge_reading(deeds, acked, asked, verdict)
    _judge_owners(deeds, absences, verdict)
    _judge_delivered(deeds, ends, verdict)
    _judge_ownership(deeds, absences, ends, calm_s, verdict)
    return verdict


def _ceilings(deeds: Sequence[Deed], did: str) -> dict[int, Ceiling]:
    points: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for deed in deeds:
        if deed.did == did:
            for partition, offset in deed.parts:
                points[partition].append((deed.at_s, offset))
    found: defaultdict[int, Ceiling] = defaultdict(lambda: Ceiling(()))
    found.update({partition: Ceiling(some) for partition, some in points.items()})
    return found


def _judge_commits(
    deeds: Sequence[Deed],
    acked: Mapping[int, Ceiling],
    ends: Mapping[int, int],
    verdict: GroupVerdict,
) -> None:
    begun: Begun = {}
    for deed in deeds:
        if deed.did == "refused":
            verdict.commits_refused += 1
        elif deed.did == "commits":
            _note_begun(begun, deed)
        elif deed.did == "committed":
            verdict.commits_accepted += 1
            for partition, offset in deed.parts:
                reported = f"member={deed.member} partition={partition} offset={offset}"
                if offset > ends[partition]:
                    verdict.found("ahead", f"{reported} end={ends[partition]}")
                begun_s = begun.pop((deed.member, partition, offset), deed.at_s)
                before = acked[partition].before(begun_s)
                if offset < before:
                    verdict.found("back", f"{reported} acknowledged before={before}")


def _note_begun(begun: Begun, deed: Deed) -> None:
    begun.update({(deed.member, partition, offset): deed.at_s for partition, offset in deed.parts})


def _judge_fetched(
    fetched: Sequence[Fetched],
    acked: Mapping[int, Ceiling],
    asked: Mapping[int, Ceiling],
    ends: Mapping[int, int],
    verdict: GroupVerdict,
) -> None:
    last: dict[int, int] = {}
    for one in fetched:
        for partition in ends:
            offset = one.offsets.get(partition, 0)
            reported = f"fetched at={one.asked_s:.3f} partition={partition} offset={offset}"
            if offset < acked[partition].before(one.asked_s):
                verdict.found("forgotten", f"{reported} {acked[partition].before(one.asked_s)}")
            if offset > asked[partition].before(one.answered_s):
                verdict.found("ahead", f"{reported} {asked[partition].before(one.answered_s)}")
            if offset < last.get(partition, 0):
                verdict.found("back", f"{reported} fetched before={last[partition]}")
            last[partition] = offset
    for partition, end in ends.items():
        if last.get(partition, 0) != end:
            verdict.found("forgotten", f"at the end {partition=} {last.get(partition)} {end=}")


def _judge_records(
    records: Sequence[Generation | Recorded], ends: Mapping[int, int], verdict: GroupVerdict
) -> None:
    """In the order of the log. Live keys that are written again say the same thing again."""
    offsets: dict[int, int] = {}
    last = Generation(0, {})
    for one in records:
        if isinstance(one, Recorded):
            before, now = offsets.get(one.partition, 0), one.offset
            if now is None:
                verdict.found("forgotten", f"recorded: partition={one.partition} deleted")
                continue
            if now < before:
                verdict.found("back", f"recorded: partition={one.partition} {before} then {now}")
            if now > ends[one.partition]:
                verdict.found("ahead", f"recorded: partition={one.partition} {now}")
            offsets[one.partition] = now
            continue
        if one == last:
            continue
        verdict.generations += one.number > last.number
        is_next = one.number > last.number
        is_assigned_now = one.number == last.number and last.shares is None
        if not is_next and not is_assigned_now:
            verdict.found("generation", f"{last} then {one}")
        for partition, count in Counter(p for s in (one.shares or {}).values() for p in s).items():
            if count > 1:
                verdict.found("owners", f"generation={one.number} {partition=} owners={count}")
        last = one


def _judge_reading(
    deeds: Sequence[Deed],
    acked: Mapping[int, Ceiling],
    asked: Mapping[int, Ceiling],
    verdict: GroupVerdict,
) -> None:
    """Each assignment begins at what was committed, and goes on without a hole."""
    next_: dict[tuple[str, int], int] = {}
    assigned_s: dict[tuple[str, int], float] = {}
    for deed in deeds:
        if deed.did == "assigned":
            for (partition,) in deed.parts:
                next_.pop((deed.member, partition), None)
                assigned_s[deed.member, partition] = deed.at_s
        elif deed.did == "read":
            for partition, first, last in deed.parts:
                key = deed.member, partition
                reported = f"member={deed.member} {partition=} at={deed.at_s:.3f} {first=}"
                if key not in assigned_s:
                    verdict.found("hole", f"{reported} never assigned")
                elif key in next_ and first != next_[key]:
                    verdict.found("hole", f"{reported} expected={next_[key]}")
                elif key not in next_:
                    low = acked[partition].before(assigned_s[key])
                    high = asked[partition].before(deed.at_s)
                    if not low <= first <= high:
                        verdict.found("resumed", f"{reported} committed={low} to {high}")
                next_[key] = last + 1


def _judge_owners(
    deeds: Sequence[Deed], absences: Sequence[Absence], verdict: GroupVerdict
) -> None:
    """No member's commit is accepted once another was assigned the partition."""
    assigned: dict[int, list[tuple[float, str]]] = defaultdict(list)
    begun: Begun = {}
    for deed in deeds:
        if deed.did == "assigned":
            name = "" if _may_be_late(deed, absences) else deed.member
            for (partition,) in deed.parts:
                assigned[partition].append((deed.at_s, name))
        elif deed.did == "commits":
            _note_begun(begun, deed)
        elif deed.did == "committed":
            for partition, offset in deed.parts:
                at_s = begun.pop((deed.member, partition, offset), deed.at_s)
                since = [member for when_s, member in assigned[partition] if when_s < at_s]
                if since and since[-1] not in ("", deed.member):
                    reported = f"{partition=} at={at_s:.3f} owner={since[-1]}"
                    verdict.found("owners", f"{reported} but {deed.member} could commit")


def _may_be_late(deed: Deed, absences: Sequence[Absence]) -> bool:
    return any(
        one.member == deed.member and one.begin_s <= deed.at_s <= one.end_s + AWOKEN_S
        for one in absences
    )


def _judge_delivered(deeds: Sequence[Deed], ends: Mapping[int, int], verdict: GroupVerdict) -> None:
    seen = {partition: bytearray(end) for partition, end in ends.items()}
    for deed in deeds:
        if deed.did == "read":
            for partition, first, last in deed.parts:
                verdict.delivered += last - first + 1
                if last >= ends[partition]:
                    verdict.found("ahead", f"read {partition=} {last=} end={ends[partition]}")
                    continue
                verdict.delivered_again += seen[partition].count(1, first, last + 1)
                seen[partition][first : last + 1] = b"\1" * (last - first + 1)
    for partition, marks in seen.items():
        if missing := marks.count(0):
            verdict.found("missing", f"{partition=} records={missing} first={marks.index(0)}")


def _judge_ownership(
    deeds: Sequence[Deed],
    absences: Sequence[Absence],
    ends: Mapping[int, int],
    calm_s: float,
    verdict: GroupVerdict,
) -> None:
    """From when everything was owned for the first time: how long it was not."""
    owners: Owners = {partition: set() for partition in ends}
    unowned_s: float | None = None
    was_owned, last_s = False, calm_s
    for at_s in _each_change(deeds, absences, owners):
        is_owned = all(owners.values())
        if is_owned and unowned_s is not None and was_owned:
            verdict.longest_unowned_s = max(verdict.longest_unowned_s, at_s - unowned_s)
            last_s = max(calm_s, at_s)
        unowned_s = None if is_owned else (at_s if unowned_s is None else unowned_s)
        was_owned = was_owned or is_owned
    verdict.owned_again_s = last_s - calm_s if unowned_s is None else float("inf")
    for partition, names in owners.items():
        if len(names) != 1:
            verdict.found("unowned", f"{partition=} owners={sorted(names)}")


def owners_at_the_end(
    deeds: Iterable[Deed], absences: Sequence[Absence], partitions: Iterable[int]
) -> Owners:
    """The members that own each partition after the last deed, by what they were assigned."""
    owners: Owners = {partition: set() for partition in partitions}
    for _ in _each_change(deeds, absences, owners):
        pass
    return owners


def _each_change(
    deeds: Iterable[Deed], absences: Sequence[Absence], owners: Owners
) -> Iterator[float]:
    """Applies one deed or absence after the other to `owners`; yields the time of each.

    A frozen member has nothing until it learns of it, or can commit again: a new coordinator gives
    everybody a whole session.
    """
    dids = "assigned", "revoked", "committed"
    happened = [(deed.at_s, deed) for deed in deeds if deed.did in dids]
    frozen = {one.member: one.end_s for one in absences if one.end_s < float("inf")}
    steps: list[tuple[float, Deed | Absence]] = [*happened, *((a.begin_s, a) for a in absences)]
    for at_s, step in sorted(steps, key=lambda step: step[0]):
        if isinstance(step, Absence):
            for names in owners.values():
                names.discard(step.member)
        elif step.did != "committed":
            _change_owner(owners, step)
            if at_s > frozen.get(step.member, float("inf")):
                del frozen[step.member]  # the client knows: its commits prove nothing now
        elif at_s > frozen.get(step.member, float("inf")):
            _change_owner(owners, step)
        yield at_s


def _change_owner(owners: Owners, deed: Deed) -> None:
    for partition, *_ in deed.parts:
        if deed.did == "revoked":
            owners[partition].discard(deed.member)
        else:
            owners[partition].add(deed.member)
