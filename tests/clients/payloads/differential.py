"""Frames judged by Kafka's classes and by this product: who takes which, and a table of that.

Wanted: what Java cannot read is refused, with Kafka's code; what Java reads is taken, and read
alike, unless a rule of `stricter` says which other client could not. Kafka answers
UNKNOWN_SERVER_ERROR where a codec's library raises: any code that says more will do.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from logstore.records.batch import Codec
from tests.clients.payloads.frames import FORMS, SEPARATOR, some_frame
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

    def add(self, judged: Judged) -> None:
        self.tried += 1
        self.kinds.update(judged.kind.split(SEPARATOR))
        ours, java = judged.ours, judged.java
        if fault := _difference(ours, java):
            self._differ(judged, fault)
        elif ours.digest:
            self.taken += 1
        elif not java.digest:
            self.refused += 1
        else:
            rule = next((one for one in STRICTER if one.covers(judged.codec, ours.why)), None)
            if rule is None:
                self._differ(judged, "refused here alone")
            else:
                self.refused_here_alone[rule] += 1

    def _differ(self, judged: Judged, fault: str) -> None:
        text = f"{judged.codec} {judged.number} ({judged.kind}): {fault}"
        self.differences.append(f"{text}; here: {judged.ours}; Java: {judged.java}")


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


def judged_frames(codec: Codec, seed: int, first: int, count: int) -> Iterator[Judged]:
    for low in range(first, first + count, BUNCH):
        numbers = range(low, min(low + BUNCH, first + count))
        frames = [some_frame(seed, number, codec) for number in numbers]
        verdicts = java_verdicts([frame.batch for frame in frames])
        for number, frame, java in zip(numbers, frames, verdicts, strict=True):
            yield Judged(codec, number, frame.kind, our_verdict(frame.batch), java)


def tallies(seed: int, first: int, count: int) -> dict[Codec, Tally]:
    """`count` frames of each codec, from number `first`."""
    by_codec = {codec: Tally() for codec in FORMS}
    for codec, tally in by_codec.items():
        for judged in judged_frames(codec, seed, first, count):
            tally.add(judged)
    return by_codec


def table(by_codec: dict[Codec, Tally]) -> str:
    head = ("codec", "tried", "taken", "refused", "refused here alone", "differences")
    rows: list[Iterable[object]] = [head]
    for codec, tally in by_codec.items():
        alone = tally.refused_here_alone.total()
        rows.append((codec, tally.tried, tally.taken, tally.refused, alone, len(tally.differences)))
    lines = ["  ".join(f"{cell!s:>11}" for cell in row) for row in rows]
    met = sum((tally.refused_here_alone for tally in by_codec.values()), Counter[Stricter]())
    lines += [f"{met[rule]:>7} {rule.codec or 'records'}: {rule.who}" for rule in STRICTER]
    lines += [line for tally in by_codec.values() for line in tally.differences[:20]]
    return "\n".join(lines)
