"""The judge of the kill series finds every kind of anomaly that is planted, and nothing else."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tests.scenarios.harness.values import Entry, Kind, Value, decode_value, encode_value
from tests.scenarios.harness.verdict import StoredRecord, judge

PRODUCERS, COUNT, PARTITIONS = 2, 6, 2


@dataclass(slots=True)
class Series:
    """A flawless one: each value is sent, stored, acknowledged; then the watermarks are seen."""

    journal: list[Entry] = field(default_factory=list)
    watermarks: list[Entry] = field(default_factory=list)
    stored: dict[int, list[StoredRecord]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stored = {partition: [] for partition in range(PARTITIONS)}
        now = 0.0
        for counter in range(COUNT):
            for producer in range(PRODUCERS):
                for partition in range(PARTITIONS):
                    value = Value(producer, partition, counter)
                    log = self.stored[partition]
                    offset = len(log)
                    log.append(StoredRecord(offset, value, (1000 + producer, 0), counter))
                    self.journal.append(Entry(Kind.SENT, *value, -1, now))
                    self.journal.append(Entry(Kind.ACKED, *value, offset, now + 1))
                    now += 2
                    self.watermarks += [
                        Entry(Kind.SEEN_LOW, 0, partition, 0, 0, now),
                        Entry(Kind.SEEN_HIGH, 0, partition, 0, offset + 1, now),
                    ]

    def anomalies(self) -> set[str]:
        return set(judge(self.journal, self.watermarks, self.stored).anomalies)


def test_a_flawless_series_is_judged_so() -> None:
    verdict = judge(Series().journal, Series().watermarks, Series().stored)

    assert not verdict.anomalies
    assert verdict.sent == verdict.acked == verdict.stored == PRODUCERS * COUNT * PARTITIONS
    assert verdict.failed == 0


def lose_the_last(series: Series) -> None:
    series.stored[0].pop()


def lose_one_amid(series: Series) -> None:
    log = series.stored[0]
    log[:] = log[:4] + [r._replace(offset=r.offset - 1) for r in log[5:]]


def store_twice(series: Series) -> None:
    log = series.stored[1]
    log.append(log[0]._replace(offset=len(log)))


def store_out_of_order(series: Series) -> None:
    log = series.stored[0]
    first, later = log[0], log[2]
    log[0], log[2] = later._replace(offset=0), first._replace(offset=2)


def leave_a_gap(series: Series) -> None:
    log = series.stored[0]
    log[-1] = log[-1]._replace(offset=len(log))


def store_what_was_never_sent(series: Series) -> None:
    log = series.stored[0]
    log.append(StoredRecord(len(log), Value(9, 0, 0), (9, 0), 0))


def damage_one(series: Series) -> None:
    series.stored[0][3] = series.stored[0][3]._replace(value=None)


def skip_a_sequence(series: Series) -> None:
    log = series.stored[1]
    log[-1] = log[-1]._replace(sequence=log[-1].sequence + 1)


def answer_a_wrong_offset(series: Series) -> None:
    series.journal[-1] = series.journal[-1]._replace(offset=series.journal[-1].offset + 1)


def answer_an_offset_below_an_earlier_one(series: Series) -> None:
    series.journal[-1] = series.journal[-1]._replace(offset=0)


def never_answer(series: Series) -> None:
    series.journal.pop()


def move_a_watermark_back(series: Series) -> None:
    series.watermarks.append(series.watermarks[-1]._replace(offset=1))


def move_the_log_start_back(series: Series) -> None:
    series.watermarks.append(Entry(Kind.SEEN_LOW, 0, 0, 0, 5, 1e6))
    series.watermarks.append(Entry(Kind.SEEN_LOW, 0, 0, 0, 4, 1e6))


def show_less_than_was_acknowledged(series: Series) -> None:
    series.watermarks = [mark._replace(offset=0) for mark in series.watermarks]


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (lose_the_last, {"lost"}),
        (lose_one_amid, {"lost", "misplaced", "sequence"}),
        (store_twice, {"doubled", "sequence"}),
        (store_out_of_order, {"disordered", "misplaced", "sequence"}),
        (leave_a_gap, {"gap", "misplaced"}),
        (store_what_was_never_sent, {"phantom"}),
        (damage_one, {"phantom", "lost"}),
        (skip_a_sequence, {"sequence"}),
        (answer_a_wrong_offset, {"misplaced", "watermark"}),
        (answer_an_offset_below_an_earlier_one, {"misplaced", "overtaken"}),
        (never_answer, {"lost"}),
        (move_a_watermark_back, {"watermark"}),
        (move_the_log_start_back, {"watermark"}),
        (show_less_than_was_acknowledged, {"watermark"}),
    ],
)
def test_what_is_planted_is_found(plant: Callable[[Series], None], found: set[str]) -> None:
    series = Series()

    plant(series)

    assert series.anomalies() == found


def test_a_verdict_can_be_sent_to_another_process() -> None:
    series = Series()
    store_twice(series)
    verdict = judge(series.journal, series.watermarks, series.stored)

    reported = json.loads(verdict.encode())

    assert reported["anomalies"] == {"doubled": 1, "sequence": 1}
    assert len(reported["examples"]["doubled"]) == 1


def test_values_survive_encoding_and_damage_shows() -> None:
    value = Value(3, 7, 123_456)
    data = bytearray(encode_value(value))

    assert decode_value(bytes(data)) == value
    data[5] ^= 1
    assert decode_value(bytes(data)) is None
