"""Rules for names of principals: Kafka's examples, texts that are no rules, endless patterns."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Invalid
from logstore.security.bounded_pattern import BadPattern, BoundedPattern
from logstore.security.principal_rules import NoRule, PrincipalRules

KAFKAS = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, "
    "DEFAULT"
)
"""Of `SslPrincipalMapperTest` in Kafka."""


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("O=example,CN=duke.u", "DUKE.U"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_subjects_are_named_as_by_kafka(subject: str, name: str) -> None:
    assert PrincipalRules(KAFKAS).name_of(subject) == name


def test_without_rules_a_subject_is_the_name_and_without_default_none_is_refused() -> None:
    assert PrincipalRules("").name_of("CN=a") == "CN=a"
    with pytest.raises(NoRule):
        PrincipalRules("RULE:^CN=b$/b/").name_of("CN=a")
    with pytest.raises(NoRule):
        PrincipalRules("RULE:^CN=(x?)a$/$1/").name_of("CN=a")


@pytest.mark.parametrize("text", ["RULE:", "DEFAULTS", "RULE:a/b", "RULE:(/x/", "x,DEFAULT"])
def test_texts_that_are_no_rules_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalRules(text)


@pytest.mark.parametrize(
    "pattern", [r"(a)\1", "(?=a)b", "a**", "a{1,1000}", "(" * 20, "[a", "a{x}"]
)
def test_patterns_beyond_the_bound_are_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        BoundedPattern(pattern)


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|aa)+b", "(.*)(.*)(.*)(.*)(.*)(.*)(.*)b"])
def test_each_place_is_tried_once(pattern: str) -> None:
    """Python's own take hours for these."""
    assert BoundedPattern(pattern).full_match("a" * 1000) is None


_ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", "(a)", "(?:b|a)", "(a|)", "(b*)"])
_TIMES = st.sampled_from(["", "*", "+", "?", "*?", "+?", "??", "{2}", "{0,2}", "{1,}"])
_PATTERNS = st.lists(st.tuples(_ATOMS, _TIMES).map("".join), max_size=5).map("".join)


@given(_PATTERNS, st.text("ab1", max_size=8))
def test_texts_match_as_by_python(pattern: str, text: str) -> None:
    theirs, ours = re.fullmatch(pattern, text), BoundedPattern(pattern).full_match(text)
    assert (theirs is None) == (ours is None)
