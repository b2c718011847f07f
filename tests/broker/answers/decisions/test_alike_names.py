"""Topics whose names look alike in metrics are found whatever their number."""

from hypothesis import given
from hypothesis import strategies as st

from broker.answers.decisions.alike_names import AlikeNames


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


def test_of_several_that_are_alike_those_that_stay_are_found() -> None:
    names = AlikeNames(["a.b", "a_b"])
    names.remove("a_b")
    assert names.find("a_b") == "a.b"
    names.add("a_b")
    names.remove("a.b")
    assert names.find("a.b") == "a_b"
    names.remove("a_b")
    assert names.find("a.b") is None


@given(st.lists(st.tuples(st.booleans(), st.text("a._", min_size=1, max_size=2))))
def test_a_name_is_found_exactly_while_one_like_it_is_there(steps: list[tuple[bool, str]]) -> None:
    names, there = AlikeNames([]), dict[str, None]()
    for is_added, name in steps:
        if is_added:
            names.add(name)
            there[name] = None
        else:
            names.remove(name)
            there.pop(name, None)
        alike = [one for one in there if one.replace(".", "_") == name.replace(".", "_")]
        assert (names.find(name) in alike) if alike else (names.find(name) is None)
