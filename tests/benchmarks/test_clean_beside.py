"""Apache Kafka's cleaner and our key compaction leave the same records, but for files left alone.

That each side rebuilds the state of the whole history, and has a reason for each record that is
left, is checked by the case itself.
"""

import pytest

from benchmarks.cases.clean_beside import (
    ABOVE,
    EARLIER,
    REPLACED,
    check,
    history_of,
    on_kafka,
    on_logstore,
    reason,
)
from tests.clients.java_users import why_no_tools

RECORDS, POLICY = 8000, "compact,delete"


@pytest.mark.clients
def test_what_is_left_differs_where_the_case_says() -> None:
    if why_no_tools():
        pytest.skip("Apache Kafka's tools need Java 17 and Maven, once")
    history = history_of(RECORDS, POLICY)
    ours, _, _ = on_logstore(history, POLICY)
    theirs, _, _ = on_kafka(history, POLICY, idle_s=0)

    check(history, ours)
    check(history, theirs)
    assert ours.log_start == theirs.log_start
    here = {reason(history, ours, at) for at in ours.kept.keys() - theirs.kept.keys()}
    there = {reason(history, theirs, at) for at in theirs.kept.keys() - ours.kept.keys()}
    assert here == {REPLACED, EARLIER}
    assert not there
    assert [at for at in theirs.kept if reason(history, theirs, at) == ABOVE] == [history.count - 1]
