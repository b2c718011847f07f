"""Judges one series from what clients saw and what the objects hold. Pure.

lost          acknowledged and nowhere, or sent and never answered
misplaced     acknowledged at another offset than it is at
doubled       at two offsets
disordered    counters of one producer and partition do not go up with the offsets
gap           offsets of a partition are not 0, 1, 2, ...
phantom       stored and never sent, or damaged
sequence      sequences of one producer id, epoch and partition are not 0, 1, 2, ...
overtaken     acknowledged at an offset not above those acknowledged before it was sent
watermark     went back, or was not above what had been acknowledged before it was asked for
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from tests.scenarios.harness.values import Entry, Kind, Value

EXAMPLES_MAX = 5
SEQUENCES = 2**31


class StoredRecord(NamedTuple):
    offset: int
    value: Value | None
    """None: bytes that are no value of ours."""
    producer: tuple[int, int]
    """Producer id and epoch."""
    sequence: int


@dataclass(slots=True)
class Verdict:
    sent: int = 0
    acked: int = 0
    failed: int = 0
    stored: int = 0
    watermarks: int = 0
    anomalies: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def blame(self, kind: str, text: str, count: int = 1) -> None:
        self.anomalies[kind] = self.anomalies.get(kind, 0) + count
        examples = self.examples.setdefault(kind, [])
        if len(examples) < EXAMPLES_MAX:
            examples.append(text)

    def encode(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self))


def judge(
    journal: Sequence[Entry],
    watermarks: Sequence[Entry],
    stored: Mapping[int, Sequence[StoredRecord]],
) -> Verdict:
    """`journal` and `watermarks` in the order of time, `stored` by partition in that of the log."""
    verdict = Verdict()
    sent: set[Value] = set()
    acked: dict[Value, int] = {}
    for entry in journal:
        match entry.kind:
            case Kind.SENT:
                sent.add(entry.value)
            case Kind.ACKED:
                acked[entry.value] = entry.offset
            case _:
                verdict.failed += 1
    verdict.sent, verdict.acked = len(sent), len(acked)
    places = _judge_stored(verdict, sent, stored)
    _judge_acks(verdict, sent, acked, places)
    _judge_real_time(verdict, journal)
    _judge_watermarks(verdict, journal, watermarks)
    return verdict


def _judge_stored(
    verdict: Verdict, sent: set[Value], stored: Mapping[int, Sequence[StoredRecord]]
) -> dict[Value, int]:
    places: dict[Value, int] = {}
    last_counter: dict[tuple[int, int], int] = {}
    next_sequence: dict[tuple[int, tuple[int, int]], int] = defaultdict(int)
    for partition, records in stored.items():
        for expected, record in enumerate(records):
            where = f"partition={partition} offset={record.offset}"
            verdict.stored += 1
            if record.offset != expected:
                verdict.blame("gap", f"{where} expected={expected}")
            stream = (partition, record.producer)
            if record.sequence != next_sequence[stream]:
                verdict.blame("sequence", f"{where} sequence={record.sequence} of={stream}")
            next_sequence[stream] = (record.sequence + 1) % SEQUENCES
            value = record.value
            if value is None or value not in sent or value.partition != partition:
                verdict.blame("phantom", f"{where} value={value}")
                continue
            if value in places:
                verdict.blame("doubled", f"{where} also={places[value]} value={value}")
                continue
            places[value] = record.offset
            writer = (value.producer, partition)
            if value.counter <= last_counter.get(writer, -1):
                verdict.blame("disordered", f"{where} value={value}")
            last_counter[writer] = value.counter
    return places


def _judge_acks(
    verdict: Verdict, sent: set[Value], acked: Mapping[Value, int], places: Mapping[Value, int]
) -> None:
    for value, offset in acked.items():
        place = places.get(value)
        if place is None:
            verdict.blame("lost", f"value={value} acknowledged={offset}")
        elif place != offset:
            verdict.blame("misplaced", f"value={value} acknowledged={offset} stored={place}")
    unanswered = len(sent) - len(acked) - verdict.failed
    if unanswered:
        verdict.blame("lost", f"never answered: {unanswered}", unanswered)


def _judge_real_time(verdict: Verdict, journal: Iterable[Entry]) -> None:
    highest: dict[int, int] = defaultdict(lambda: -1)
    floors: dict[Value, int] = {}
    for entry in journal:
        if entry.kind == Kind.SENT:
            floors[entry.value] = highest[entry.partition]
        elif entry.kind == Kind.ACKED:
            if entry.offset <= floors.pop(entry.value, -1):
                verdict.blame("overtaken", f"value={entry.value} offset={entry.offset}")
            highest[entry.partition] = max(highest[entry.partition], entry.offset)


def _judge_watermarks(
    verdict: Verdict, journal: Sequence[Entry], watermarks: Sequence[Entry]
) -> None:
    lowest: dict[tuple[int, int], int] = defaultdict(int)
    acked_up_to: dict[int, int] = defaultdict(int)
    acks = iter([entry for entry in journal if entry.kind == Kind.ACKED])
    ack = next(acks, None)
    for mark in watermarks:
        while ack is not None and ack.at_s < mark.at_s:
            acked_up_to[ack.partition] = max(acked_up_to[ack.partition], ack.offset + 1)
            ack = next(acks, None)
        verdict.watermarks += 1
        key = (mark.kind, mark.partition)
        if mark.offset < lowest[key]:
            verdict.blame("watermark", f"back: {mark} before={lowest[key]}")
        lowest[key] = max(lowest[key], mark.offset)
        if mark.kind == Kind.SEEN_HIGH and mark.offset < acked_up_to[mark.partition]:
            verdict.blame("watermark", f"low: {mark} acked={acked_up_to[mark.partition]}")
