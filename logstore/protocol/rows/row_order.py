"""Which of two rows of one partition, or of one topic, is the newer. Pure.

The row of a later leadership is newer. Within one leader epoch log start only rises, and epoch
ranges are only left out; replicas and target go to and fro. So of two rows that differ in these
alone, the one that was read later is newer, and of one that was written and one that was read, the
one that was read: a broker writes only the first row of a leader epoch as a whole (a creation, a
takeover), whose answer may come long after others have read it and changed it.
"""

from dataclasses import replace

from logstore.formats.partition_row import PartitionRow
from logstore.formats.topic_row import TopicRow


def newest_row(row: PartitionRow, known: PartitionRow, *, is_written: bool) -> PartitionRow:
    """The newer of `row`, which has just come in, and `known`.

    `is_written`: `row` is the outcome of a write of this broker, not of a read that began after all
    that is known. The end of edited offsets rises whatever the leadership, and a change of leaders
    does not read it.
    """
    newest = known if _is_older(row, known, is_written=is_written) else row
    edited_end = max(row.edited_end, known.edited_end)
    return newest if newest.edited_end == edited_end else replace(newest, edited_end=edited_end)


def _is_older(row: PartitionRow, known: PartitionRow, *, is_written: bool) -> bool:
    if row.leader_epoch < known.leader_epoch or row.log_start < known.log_start:
        return True
    if row.leader_epoch > known.leader_epoch or row.log_start > known.log_start:
        return False
    dropped = len(known.epoch_ranges) - len(row.epoch_ranges)
    return dropped < 0 or (is_written and not dropped)


def is_older_topic(row: TopicRow, known: TopicRow) -> bool:
    """Versions order the rows of one life of a topic; those of two lives are as they were read."""
    return row.topic_id == known.topic_id and row.version < known.version
