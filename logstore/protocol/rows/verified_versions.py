"""How far a table's commits were found to follow each other: one row a topic. Pure.

    pk      sk                attributes
    trim    <topic id>        version     every commit up to this one begins where the one before
                                          it ended, when last verified

An overwritten commit is found by verifying the commits since the mark, however long ago that was,
and is found again each time: the mark stays below it until an operator overrides it
(`logstore gc --trust-table`). Without the row, all commits that the table still has are verified.
"""

from collections.abc import Mapping

from logstore.errors import ConditionFailed
from logstore.formats.row_fields import field_of
from logstore.ports.registry import Comparison, RowAbsent
from logstore.protocol.steps import DeleteRow, PutRow, QueryRows, Steps, UpdateRow

TRIM = "trim"


def read_marks() -> Steps[dict[bytes, int]]:
    """By topic id."""
    rows = yield QueryRows(TRIM)
    return {bytes.fromhex(sk): field_of(row, "version", int) for sk, row in rows}


def change_marks(known: Mapping[bytes, int], verified: Mapping[bytes, int]) -> Steps[None]:
    """Raise marks, on condition that they have not changed."""
    for topic_id, version in verified.items():
        sk, before = topic_id.hex(), known.get(topic_id)
        try:
            if before is None:
                yield PutRow(TRIM, sk, {"version": version}, [RowAbsent()])
            else:
                conditions = [Comparison("version", "=", before)]
                yield UpdateRow(TRIM, sk, {"version": version}, conditions)
        except ConditionFailed:
            continue  # a mark that another set will do


def drop_mark(topic_id: bytes, version: int) -> Steps[None]:
    """Of a topic that has no table any more."""
    try:
        yield DeleteRow(TRIM, topic_id.hex(), [Comparison("version", "=", version)])
    except ConditionFailed:
        return
