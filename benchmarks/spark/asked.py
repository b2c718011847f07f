"""Requests of an idle stream's driver by steps of a clock, and their price."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from logstore.ports.registry import Row
from logstore.prices import Requests, RowUnits, cost_of, cost_of_rows, read_units
from logstore.reading.direct.log_metadata import LogMetadata
from logstore.registry.timed import row_bytes
from logstore.runners.step_runner import RegistryReads
from logstore.wiring.open import ReadableLog, open_readable
from spark_source.planning.choices import topics_of_list
from tests.spark_source.stepped_time import SteppedTime

MINUTES = 10
MONTH_MINUTES = 730 * 60


class CountedReads:
    """Counts the calls of `reads`, pages of a long query as one; `units` are DynamoDB's."""

    def __init__(self, reads: RegistryReads) -> None:
        self.calls = self.units = 0
        self._reads = reads

    def get(self, pk: str, sk: str) -> Row | None:
        self.calls += 1
        row = self._reads.get(pk, sk)
        self.units += read_units(0 if row is None else row_bytes(pk, sk, row))
        return row

    def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]:
        self.calls += 1
        found = self._reads.query(pk, prefix)
        self.units += read_units(sum(row_bytes(pk, sk, row) for sk, row in found))
        return found


def asked_when_idle(url: str, topic: str) -> dict[str, float]:
    """Requests a minute by kind, and dollars a month, in the second ten minutes.

    In the first minutes the driver slows down. Prices are S3's and DynamoDB's, wherever `url` is.
    """
    opened: list[tuple[ReadableLog, CountedReads]] = []

    def open_counted(url: str, storage: Mapping[str, str]) -> ReadableLog:
        log = open_readable(url, storage)
        assert log.runner.registry is not None
        reads = CountedReads(log.runner.registry)
        opened.append((log, reads))
        return replace(log, runner=replace(log.runner, registry=reads))

    passing = SteppedTime()
    survey = LogMetadata(
        url,
        topics_of_list("subscribe", topic),
        clock=passing,
        sleep_s=passing.pass_s,
        open_log=open_counted,
    )
    survey.look()
    ((log, reads),) = opened
    try:
        survey.wait_for_update(lambda _: False, 60.0 * MINUTES)
        before, calls, units = log.counts.requests(), reads.calls, reads.units
        survey.wait_for_update(lambda _: False, 60.0 * MINUTES)
        now = log.counts.requests()
        asked = Requests(gets=now.gets - before.gets, lists=now.lists - before.lists)
        dollars = cost_of(asked) + cost_of_rows(RowUnits(reads=reads.units - units))
        return {
            "GETs/min": asked.gets / MINUTES,
            "LISTs/min": asked.lists / MINUTES,
            "registry reads/min": (reads.calls - calls) / MINUTES,
            "dollars/month": dollars / MINUTES * MONTH_MINUTES,
        }
    finally:
        log.close()
