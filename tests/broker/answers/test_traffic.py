"""Traffic by topic: bounded names, and no figure ever falls."""

from broker.answers.traffic import Traffic


def test_topics_beyond_the_bound_share_one_count_that_never_falls() -> None:
    traffic = Traffic(topics_max=1)
    first, second, third = (bytes([number]) * 16 for number in range(3))
    traffic.of(first, "first").bytes_in += 1
    traffic.of(second, "second").bytes_in += 20
    traffic.of(third, "third").bytes_in += 300
    assert traffic.other.bytes_in == 320
    assert [(name, one.bytes_in) for name, one in traffic.by_topic.items()] == [("first", 1)]

    traffic.forget(first)
    traffic.of(second, "second").bytes_in += 4000
    assert traffic.other.bytes_in == 4320, "a topic stays where it was counted first"
    assert not traffic.by_topic
    traffic.of(bytes(16), "fourth").bytes_in += 5
    assert list(traffic.by_topic) == ["fourth"]
