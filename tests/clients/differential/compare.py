"""Differences between the answers of two servers, and which of them are accepted, and why."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.clients.differential.peer import Fields

MISSING = "no such field"
_PLACE = re.compile(r"\[[^\]]*\]")


class Difference(NamedTuple):
    label: str
    field: str
    theirs: object
    ours: object

    def __str__(self) -> str:
        return f"{self.label}: {self.field}: Kafka {self.theirs!r}, here {self.ours!r}"


class Accepted(NamedTuple):
    """Differences whose label and field match these patterns, for a reason."""

    label: str
    field: str
    reason: str

    def covers(self, difference: Difference) -> bool:
        return bool(
            re.fullmatch(self.label, difference.label)
            and re.fullmatch(self.field, difference.field)
        )


class Verdict(NamedTuple):
    request_count: int
    field_count: int
    unexplained: Sequence[Difference]
    explained: Mapping[Accepted, int]
    """How many differences each explains."""

    def lines(self) -> list[str]:
        head = f"requests={self.request_count} fields={self.field_count}"
        total = sum(self.explained.values())
        lines = [f"{head} differences={len(self.unexplained) + total} explained={total}"]
        lines += [
            f"{count:5}  {one.label} {one.field}: {one.reason}"
            for one, count in self.explained.items()
        ]
        return lines + [f"NEW    {one}" for one in self.unexplained]


def compare(
    theirs: Mapping[str, Fields], ours: Mapping[str, Fields], accepted: Sequence[Accepted]
) -> Verdict:
    counts: Counter[Accepted] = Counter(dict.fromkeys(accepted, 0))
    unexplained = []
    for difference in differences(theirs, ours):
        reason = next((one for one in accepted if one.covers(difference)), None)
        if reason is None:
            unexplained.append(difference)
        else:
            counts[reason] += 1
    field_count = sum(map(len, theirs.values()))
    return Verdict(len(theirs.keys() | ours.keys()), field_count, unexplained, counts)


def differences(theirs: Mapping[str, Fields], ours: Mapping[str, Fields]) -> list[Difference]:
    found = []
    for label in [*theirs, *(one for one in ours if one not in theirs)]:
        one, other = theirs.get(label, {}), ours.get(label, {})
        for field in [*one, *(name for name in other if name not in one)]:
            values = one.get(field, MISSING), other.get(field, MISSING)
            if values[0] != values[1]:
                found.append(Difference(label, field, *values))
    return found
