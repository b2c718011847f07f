"""Frames judged by Kafka's classes and by this product: who takes which, and a table of that.

Wanted: what Java cannot read is refused, with Kafka's code; what Java reads is taken, and read
alike, unless a rule of `stricter` says which other client could not. Kafka answers
UNKNOWN_SERVER_ERROR where a codec's library raises: any code that says more will do.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from logstore.records.batch import Codec
from tests.clients.payloads.frames import FORMS, SEPARATOR, Frame, some_frame
from tests.clients.payloads.judges import Verdict, java_verdicts, our_verdict
from tests.clients.payloads.stricter import STRICTER, Stricter

BUNCH = 2_000
"""So many frames are held at once, and read by one Java."""

REFUSALS = ("INVALID_RECORD", "MESSAGE_TOO_LARGE")


class Judged(NamedTuple):
    codec: Codec
    number: int
    kind: str
    ours: Verdict
    java: Verdict


@dataclass
class Tally:
    """Of the frames of one codec."""

    tried: int = 0
    taken: int = 0
    refused: int = 0
    kinds: set[str] = field(default_factory=set)
    refused_here_alone: Counter[Stricter] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def add(self, one: Judged) -> None:
        self.tried += 1
        self.kinds.update(one.kind.split(SEPARATOR))
        ours, java = one.ours, one.java
        if fault := _difference(ours, java):
            self._differ(one, fault)
        elif ours.digest:
            self.taken += 1
        elif not java.digest:
            self.refused += 1
        else:
            rule = next((rule for rule in STRICTER if rule.covers(one.codec, ours.why)), None)
            if rule is None:
                self._differ(one, "refused here alone")
            else:
                self.refused_here_alone[rule] += 1

    def _differ(self, one: Judged, fault: str) -> None:
        text = f"{one.codec} {one.number} ({one.kind}): {fault}"
        self.differences.append(f"{text}; here: {one.ours}; Java: {one.java}")


def _difference(ours: Verdict, java: Verdict) -> str:
    if ours.digest and not java.digest:
        return "taken here, and Java cannot read it"
    if ours.digest:
        return "" if ours.digest == java.digest else "other records are read"
    code = ours.why.split()[0]
    if code not in REFUSALS:
        return "refused with a code of another fault"
    if java.code not in ("", "UNKNOWN_SERVER_ERROR", code):
        return "refused with another code"
    return ""


def judged(frames: Iterable[Frame]) -> Iterator[Judged]:
    """Each of `frames`, by its place among them."""
    numbered = enumerate(frames)
    while bunch := list(islice(numbered, BUNCH)):
        verdicts = java_verdicts([frame.batch for _, frame in bunch])
        for (number, frame), java in zip(bunch, verdicts, strict=True):
            yield Judged(frame.codec, number, frame.kind, our_verdict(frame.batch), java)


def tallies(frames_of: Callable[[Codec], Iterable[Frame]]) -> dict[Codec, Tally]:
    """Of the frames that `frames_of` makes of each codec."""
    by_codec = {codec: Tally() for codec in FORMS}
    for codec, tally in by_codec.items():
        for one in judged(frames_of(codec)):
            tally.add(one)
    return by_codec


def some_frames(seed: int, numbers: range) -> Callable[[Codec], Iterable[Frame]]:
    return lambda codec: (some_frame(seed, number, codec) for number in numbers)


def table(by_codec: dict[Codec, Tally]) -> str:
    head = ("codec", "tried", "taken", "refused", "refused here alone", "differences")
    rows: list[Iterable[object]] = [head]
    for codec, tally in by_codec.items():
        alone = tally.refused_here_alone.total()
        rows.append((codec, tally.tried, tally.taken, tally.refused, alone, len(tally.differences)))
    widths = [max(len(name), 7) for name in head]
    lines = [
        "  ".join(f"{cell!s:>{width}}" for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    met = sum((tally.refused_here_alone for tally in by_codec.values()), Counter[Stricter]())
    lines += [f"{met[rule]:>7} {rule.codec or 'records'}: {rule.who}" for rule in STRICTER]
    lines += [line for tally in by_codec.values() for line in tally.differences[:20]]
    return "\n".join(lines)
