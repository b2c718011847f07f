"""Which topics are meant, and what JSON of offsets and times says."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Invalid
from spark_source.planning.choices import (
    EARLIEST,
    LATEST,
    OffsetChoice,
    TimeChoice,
    TopicChoice,
    offsets_of,
    times_of,
    topics_of_assignment,
    topics_of_list,
    topics_of_pattern,
)

EXISTING = ["orders", "orders-eu", "returns", "__consumer_offsets"]


def test_names_mean_themselves_whatever_exists() -> None:
    choice = topics_of_list("subscribe", " returns,orders,, orders")

    assert choice.of(EXISTING) == ["orders", "returns"]
    assert choice.of([]) == []
    assert choice.means("orders")
    assert not choice.means("orders-eu")


def test_a_pattern_is_found_anywhere_in_a_name_but_never_in_topics_of_the_brokers() -> None:
    def of(pattern: str) -> list[str]:
        return topics_of_pattern("subscribePattern", pattern).of(EXISTING)

    assert of("order") == ["orders", "orders-eu"]
    assert of("^orders$") == ["orders"]
    assert of("(?i)RETURN|eu$") == ["orders-eu", "returns"]
    assert of(r"[]^\[o]rders-[e&]u") == ["orders-eu"]
    assert of(".*") == ["orders", "orders-eu", "returns"]
    assert topics_of_list("subscribe", "__consumer_offsets").of(EXISTING) == ["__consumer_offsets"]


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "*a",
        r"\p{Alpha}",
        r"\Qorders\E",
        "[a-z&&[^x]]",
        "[a[b]]",
        "(?<year>x)",
        "a{9999999999}",
    ],
)
def test_a_pattern_that_python_reads_not_or_otherwise_is_refused(pattern: str) -> None:
    with pytest.raises(Invalid, match=r"subscribePattern is not a pattern that Python reads.*Java"):
        topics_of_pattern("subscribePattern", pattern)


def test_an_empty_pattern_means_nothing_and_is_refused() -> None:
    with pytest.raises(Invalid, match="subscribePattern is empty"):
        topics_of_pattern("subscribePattern", " ")


@given(st.text())
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    try:
        topics_of_pattern("subscribePattern", text).of(EXISTING)
    except Invalid as error:
        assert "subscribePattern" in str(error)


def test_an_assignment_means_partitions() -> None:
    choice = topics_of_assignment("assign", '{"orders":[2,0],"returns":[0]}')

    assert choice.of(EXISTING) == ["orders", "returns"]
    assert [n for n in range(4) if choice.means_partition("orders", n)] == [0, 2]
    assert topics_of_list("subscribe", "orders").means_partition("orders", 7)


@pytest.mark.parametrize(
    "text", ["", "orders", "[]", "{}", '{"orders":0}', '{"a":[]}', '{"a":[-1]}', '{"a":[true]}']
)
def test_an_assignment_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match=r'option assign .*write \{"orders":\[0,1\]\}'):
        topics_of_assignment("assign", text)


def test_offsets_of_what_is_not_read_are_refused() -> None:
    assigned = TopicChoice("assign", ("orders",), partitions={"orders": (1,)})
    pattern = TopicChoice("subscribePattern", pattern="^o")

    assert offsets_of("startingOffsets", '{"oh":{"0":1}}', pattern, EARLIEST) == OffsetChoice(
        EARLIEST, {"oh": {0: 1}}
    )
    with pytest.raises(Invalid, match=r"not subscribed: returns; subscribePattern: \^o"):
        offsets_of("startingOffsets", '{"returns":{"0":1}}', pattern, EARLIEST)
    with pytest.raises(Invalid, match=r"not assigned: topic=orders partitions=\[0\]; assign: \[1"):
        offsets_of("startingOffsets", '{"orders":{"0":1}}', assigned, EARLIEST)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["orders", "0", "1", "²"]), inner, max_size=3)
    ),
)


@given(JSON)
def test_any_json_is_taken_or_refused_by_name(value: object) -> None:
    topics = topics_of_list("subscribe", "orders")
    text = json.dumps(value)
    for read in (
        lambda: offsets_of("theOption", text, topics, LATEST),
        lambda: times_of("theOption", text, topics),
        lambda: topics_of_assignment("theOption", text),
    ):
        try:
            read()
        except Invalid as error:
            assert "theOption" in str(error)


def test_json_without_bottom_is_refused() -> None:
    with pytest.raises(Invalid, match="theOption"):
        offsets_of("theOption", "[" * 100_000, topics_of_list("subscribe", "orders"), LATEST)


def test_a_place_by_time_moves_only_where_latest_may_stand_in() -> None:
    assert not TimeChoice("startingTimestamp", 5, {}, EARLIEST, None).moves
    assert TimeChoice("startingTimestamp", 5, {}, EARLIEST, LATEST).moves
