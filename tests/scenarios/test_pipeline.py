"""Log to log to Delta by Spark while drivers, brokers and compaction die: each row once, in order.

`make pipeline` runs for an hour, in a bucket.
"""

import os
import random
from array import array
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from tests.scenarios.harness.pipeline import COMPACTION, KINDS, LEADER, kinds_of, run
from tests.scenarios.harness.pipeline_rows import NUMBER, SentRows, add_row
from tests.scenarios.harness.pipeline_verdict import FoundRows
from tests.spark_source.delta_jars import delta_jars

SECONDS, EVERY_S, RATE = 60.0, 8.0, 400.0
KILLS = (LEADER, "first-adopted", COMPACTION)
SEED = int(os.environ.get("SEED", "0"))


@pytest.mark.spark
def test_each_row_reaches_the_table_once_whatever_dies(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    if not delta_jars():
        pytest.skip("Delta's jars need Maven, once")
    outcome = run(
        tmp_path,
        kinds=KILLS,
        seconds=SECONDS,
        every_s=EVERY_S,
        rate=RATE,
        seed=SEED,
        say=lambda line: None,
    )
    report = "\n".join(outcome.report())
    tell(f"seed {SEED}\n{report}")

    assert outcome.is_good, report
    # A run in which nothing was staged, moved or trimmed would prove nothing.
    assert outcome.kept.swept_objects > 0, report
    assert outcome.kept.moved_rows > 0, report
    assert outcome.kept.trimmed_objects > 0, report


@pytest.fixture
def sent() -> SentRows:
    """Rows 0 to 5; 0, 2, 4 have one key, 1 and 3 another, 5 none."""
    sent = SentRows(keys=array("H", [1, 2, 1, 2, 1, 0]))
    for number in range(6):
        add_row(sent.digest, 1_000, b"key", b"%d" % number, _headers(number))
    return sent


def _headers(number: int) -> list[tuple[str, bytes | None]]:
    return [(NUMBER, b"%d" % number)]


def _found(*places: tuple[int, int, int], value: bytes | None = None) -> FoundRows:
    """By partition, offset and number."""
    found = FoundRows()
    for partition, offset, number in places:
        content = b"%d" % number if value is None else value
        found.add(partition, offset, 1_000, b"key", content, _headers(number))
    return found


GOOD = ((1, 2, 4), (1, 0, 0), (1, 1, 2), (0, 1, 5), (0, 0, 1), (0, 2, 3))


def test_rows_that_are_as_they_were_sent_are_good_in_whatever_order_read(sent: SentRows) -> None:
    assert _found(*GOOD).judge(sent).is_good


def test_a_row_that_changed_is_seen(sent: SentRows) -> None:
    verdict = _found(*GOOD, value=b"").judge(sent)
    assert not verdict.is_good
    assert (verdict.doubled, verdict.lost, verdict.out_of_order) == (0, 0, 0)


def test_rows_lost_doubled_and_out_of_order_are_counted(sent: SentRows) -> None:
    doubled = _found(*GOOD, (2, 0, 5)).judge(sent)
    assert (doubled.doubled, doubled.lost, doubled.offset_faults) == (1, 0, 0)

    lost = _found(*GOOD[:-1]).judge(sent)
    assert (lost.doubled, lost.lost, lost.is_good) == (0, 1, False)
    assert _found(*GOOD[:-1]).judge(sent, is_all=False).is_good

    swapped = ((1, 0, 2), (1, 1, 0), *GOOD[3:], GOOD[0])
    assert _found(*swapped).judge(sent).out_of_order == 1


def test_an_offset_that_is_missing_or_there_twice_is_seen(sent: SentRows) -> None:
    moved = ((1, 3, 4), *GOOD[1:])
    assert _found(*moved).judge(sent).offset_faults == 1
    twice = ((1, 1, 4), *GOOD[1:])
    assert _found(*twice).judge(sent).offset_faults == 1


def test_an_hour_has_each_kind_of_kill() -> None:
    assert set(islice(kinds_of(random.Random(0)), 60)) == set(KINDS)
