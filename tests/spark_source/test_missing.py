"""Segments that are gone when a task comes for them: lost, not needed, or missing."""

from pathlib import Path

import pytest

from logstore.errors import Corrupt, Refused
from logstore.reading.direct.log_metadata import LogMetadata
from logstore.reading.direct.missing import Resolver
from logstore.reading.direct.task_rows import read_rows
from logstore.reading.planning.segment_gone import SegmentGone
from logstore.reading.planning.tasks import ReadTask
from logstore.records.encode import encode_batch, records_of
from logstore.wiring.open import open_objects
from spark_source.options import Mode, parse_options
from spark_source.progress import Progress
from tests.spark_source.log_on_disk import LogOnDisk
from tests.spark_source.places import raise_log_start

COUNT = 6


class Planned:
    """A batch that has been planned: one segment for each of `COUNT` records of a partition."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        with LogOnDisk(directory) as log:
            self.topic_id = log.create_topic("orders", 1)
            for _ in range(COUNT):
                log.append("orders", 0, encode_batch(records_of([(None, b"v")], timestamp=1)))
            options = parse_options({"path": str(directory), "subscribe": "orders"}, Mode.BATCH)
            tasks, self.topics = Progress(
                options, LogMetadata(options.url, options.topics), 1
            ).batch()
        (self.task,) = tasks

    def remove(self, count: int) -> None:
        """The first segments of the plan."""
        (seq_range,) = self.task.seq_ranges
        for seq in range(seq_range.first_seq, seq_range.first_seq + count):
            (segment,) = self.directory.glob(f"chains/*/*/{seq:020}")
            segment.unlink()

    def offsets(self, *, fail_on_data_loss: bool, task: ReadTask | None = None) -> list[int]:
        where = str(self.directory)
        missing = Resolver(where, (), self.topics, fail_on_data_loss=fail_on_data_loss)
        rows = read_rows(open_objects(where), task or self.task, self.topics, ["offset"], missing)
        return [offset for batch in rows for offset in batch.column("offset").to_pylist()]


@pytest.fixture
def planned(tmp_path: Path) -> Planned:
    return Planned(tmp_path / "log")


def test_records_that_retention_took_end_the_query_and_are_named(planned: Planned) -> None:
    planned.remove(2)
    raise_log_start(planned.directory, planned.topic_id, 0, 2)

    says = r"are gone: topic=orders partition=0 offset=0: log start is 2 now.*failOnDataLoss"
    with pytest.raises(Refused, match=says):
        planned.offsets(fail_on_data_loss=True)


def test_without_fail_on_data_loss_the_rest_is_read(planned: Planned) -> None:
    planned.remove(2)
    raise_log_start(planned.directory, planned.topic_id, 0, 2)

    assert planned.offsets(fail_on_data_loss=False) == [2, 3, 4, 5]


def test_a_topic_that_was_deleted_during_the_run_is_named_or_leaves_nothing(
    planned: Planned,
) -> None:
    with LogOnDisk(planned.directory) as log:
        log.delete_topic("orders")
    planned.remove(COUNT)

    with pytest.raises(Refused, match="topic=orders partition=0 offset=0: topic was deleted"):
        planned.offsets(fail_on_data_loss=True)
    assert planned.offsets(fail_on_data_loss=False) == []


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_a_segment_that_should_be_there_is_never_passed_over(
    planned: Planned, fail_on_data_loss: bool
) -> None:
    planned.remove(1)

    with pytest.raises(Corrupt, match=r"a segment is missing: chain=1 seq=\d+ topic=orders"):
        planned.offsets(fail_on_data_loss=fail_on_data_loss)


def test_a_segment_cut_short_is_named_with_what_was_wanted_from_it(planned: Planned) -> None:
    (seq_range,) = planned.task.seq_ranges
    (segment,) = planned.directory.glob(f"chains/*/*/{seq_range.first_seq:020}")
    segment.write_bytes(segment.read_bytes()[:-1])

    says = r"segment cut short: chain=1 .*topic=orders partition=0 offset=0 to 5; see what the log"
    with pytest.raises(Corrupt, match=says):
        planned.offsets(fail_on_data_loss=False)


def test_without_a_registry_to_ask_it_is_an_error(planned: Planned) -> None:
    planned.remove(1)

    with pytest.raises(SegmentGone):
        list(
            read_rows(
                open_objects(str(planned.directory)), planned.task, planned.topics, ["offset"]
            )
        )
