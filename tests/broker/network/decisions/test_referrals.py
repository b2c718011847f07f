"""Consumers that come back from a follower: served for a while, then sent again."""

from broker.network.decisions.referrals import BACK_SOON_S, REFERRALS_MAX, SERVED_HERE_S, Referrals
from logstore.formats.topic_partition import TopicPartition

ONE, OTHER = TopicPartition(b"t" * 16, 0), TopicPartition(b"t" * 16, 1)


def test_who_comes_back_soon_is_kept_for_a_while_and_then_sent_again() -> None:
    referrals = Referrals()
    assert referrals.note_asked(ONE, 0.0)
    referrals.note_sent(ONE, 0.0)

    back_s = BACK_SOON_S / 2
    assert not referrals.note_asked(ONE, back_s)
    assert referrals.note_asked(OTHER, back_s)
    assert not referrals.note_asked(ONE, back_s + SERVED_HERE_S - 1)
    assert referrals.note_asked(ONE, back_s + SERVED_HERE_S)


def test_who_was_served_is_sent_again_when_its_metadata_is_old() -> None:
    referrals = Referrals()
    for number in range(10):
        assert referrals.note_asked(ONE, number * SERVED_HERE_S)
        referrals.note_sent(ONE, number * SERVED_HERE_S)


def test_a_request_that_is_looked_at_again_before_its_answer_was_not_sent_anywhere() -> None:
    referrals = Referrals()
    assert all(referrals.note_asked(ONE, now_s) for now_s in (0.0, 0.1, 5.0))


def test_the_oldest_are_forgotten() -> None:
    referrals = Referrals()
    for number in range(2 * REFERRALS_MAX):
        referrals.note_sent(TopicPartition(b"t" * 16, number), 0.0)
    assert len(referrals._sent_s) == REFERRALS_MAX
    assert referrals.note_asked(ONE, 1.0)
