"""Protocols are chosen by vote among those that all members know."""

from hypothesis import given
from hypothesis import strategies as st

from broker.groups.decisions.election import common, elect_protocol
from broker.groups.decisions.group import Member

names = st.lists(st.sampled_from("abcdef"), unique=True, min_size=1)


def member(*protocols: str) -> Member:
    return Member("m", None, "", "", 0, 0, "t", [(name, name.encode()) for name in protocols])


def test_most_votes_win() -> None:
    members = [member("a", "b"), member("b", "a"), member("b", "a")]

    assert elect_protocol(members, members[0]) == "b"


def test_a_vote_goes_to_the_first_that_every_member_knows() -> None:
    members = [member("c", "a", "b"), member("b", "a")]

    assert elect_protocol(members, members[0]) == "a", "a tie: the leader's list decides"
    assert elect_protocol(members, members[1]) == "b"


@given(lists=st.lists(names, min_size=1, max_size=6))
def test_what_is_chosen_is_known_to_all(lists: list[list[str]]) -> None:
    members = [member(*protocols) for protocols in lists]
    known = common(members)
    assert known == set.intersection(*map(set, lists))
    if known:
        assert elect_protocol(members, members[0]) in known
