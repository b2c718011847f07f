"""A query does not wait for the brokers that its group lives at, and what they miss is old."""

import threading

import pytest

from spark_source.background_commits import THREAD_NAME, BackgroundCommits
from tests.spark_source.scripted_broker import scripted_broker
from tests.spark_source.test_group_commit import commits, committed, position

WAIT_S = 60.0


def test_a_broker_that_does_not_answer_holds_nothing_up_and_hears_the_newest_later() -> None:
    with scripted_broker() as broker:
        broker.speaks.clear()
        group = BackgroundCommits(commits([broker.address], timeout_s=10))

        group.tell(position(orders=[1]))
        assert broker.was_asked.wait(WAIT_S)
        for end in range(2, 1000):
            group.tell(position(orders=[end]))
        assert not group.flush(0)
        assert broker.commits == []
        broker.speaks.set()

        assert group.flush(WAIT_S)
        assert committed(broker) == [{("orders", 0): end} for end in (1, 999)]
        group.tell(position(orders=[1000]))
        assert group.flush(WAIT_S)
        assert committed(broker)[-1] == {("orders", 0): 1000}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_group_whose_commit_fails_unexpectedly_is_answered_again() -> None:
    class Broken:
        calls = 0

        def tell(self, _position: object) -> None:
            self.calls += 1
            raise RuntimeError  # unlike any error of ours

    broken = Broken()
    group = BackgroundCommits(broken)
    for _ in range(2):
        group.tell(position(orders=[1]))
        assert group.flush(WAIT_S)
        join_threads()
    assert broken.calls == 2


def join_threads() -> None:
    """Until what they raised has been reported, in this test and not in the next one."""
    for thread in threading.enumerate():
        if thread.name == THREAD_NAME:
            thread.join(WAIT_S)
