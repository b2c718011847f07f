"""Requests of an idle stream's driver to store and registry in a minute, by steps of a clock."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from logstore.ports.registry import Row
from logstore.reading.log_metadata import LogMetadata
from logstore.runners.step_runner import RegistryReads
from logstore.wiring.open import ReadableLog, open_readable
from spark_source.planning.choices import topics_of_list
from tests.spark_source.stepped_time import SteppedTime

MINUTE_S = 60.0


class CountedReads:
    """Counts the calls of `reads`, pages of a long query as one."""

    def __init__(self, reads: RegistryReads) -> None:
        self.calls = 0
        self._reads = reads

    def get(self, pk: str, sk: str) -> Row | None:
        self.calls += 1
        return self._reads.get(pk, sk)

    def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]:
        self.calls += 1
        return self._reads.query(pk, prefix)


def asked_when_idle(url: str, topic: str) -> dict[str, float]:
    """Requests by kind, in the second minute: in the first the driver slows down."""
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
        survey.wait_for_update(lambda _: False, MINUTE_S)
        requests, calls = log.counts.requests(), reads.calls
        survey.wait_for_update(lambda _: False, MINUTE_S)
        now = log.counts.requests()
        return {
            "idle, GETs/min": now.gets - requests.gets,
            "idle, LISTs/min": now.lists - requests.lists,
            "idle, registry reads/min": reads.calls - calls,
        }
    finally:
        log.close()
