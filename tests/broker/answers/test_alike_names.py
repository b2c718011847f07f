"""Topics whose names look alike in metrics are found whatever their number."""

from broker.answers.alike_names import AlikeNames


def test_names_that_differ_in_dots_and_underscores_are_alike() -> None:
    names = AlikeNames(["a.b", "plain"])

    assert names.find("a_b") == "a.b"
    assert names.find("plain") == "plain"
    assert names.find("a-b") is None


def test_a_topic_that_is_gone_is_not_found_and_one_that_came_is() -> None:
    names = AlikeNames(["a.b"])
    names.add("c_d")
    names.remove("a.b")
    names.remove("c.d")

    assert names.find("a_b") is None
    assert names.find("c.d") == "c_d", "another one went"
