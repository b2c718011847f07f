"""What every row store and registry promises, whatever it is made of."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logstore.errors import ConditionFailed, Invalid
from logstore.ports.registry import (
    WRITE_ID,
    BlockingRowStore,
    Comparison,
    Condition,
    Row,
    RowAbsent,
    RowExists,
    Value,
)

Race = Callable[[Callable[[int], Any]], Sequence[Any]]  # by eight threads: see conftest.py

A_ROW: Row = {"text": "m", "number": 5, "data": b"\x80"}

VALUES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.integers(-(2**63), 2**63 - 1),
    st.binary(max_size=20),
)


class CalledLikeRegistry(Protocol):
    """A `Registry`, or a row store called like one, blocking: see conftest.py."""

    def get(self, pk: str, sk: str) -> Row | None: ...

    def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]: ...

    def put_if(self, pk: str, sk: str, row: Row, *conditions: Condition) -> None: ...

    def update_if(self, pk: str, sk: str, sets: Row, *conditions: Condition) -> None: ...

    def delete_if(self, pk: str, sk: str, *conditions: Condition) -> None: ...


def content(row: Row | None) -> dict[str, Value] | None:
    """The row without its write id."""
    return None if row is None else {name: row[name] for name in row if name != WRITE_ID}


def test_a_row_that_was_put_is_there(registry: CalledLikeRegistry) -> None:
    assert registry.get("pk", "sk") is None
    registry.put_if("pk", "sk", A_ROW)
    assert content(registry.get("pk", "sk")) == A_ROW
    assert registry.get("pk", "s") is registry.get("p", "sk") is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(row=st.dictionaries(st.sampled_from(["a", "b", "ü", "name with spaces"]), VALUES))
def test_values_come_back_as_they_were(registry: CalledLikeRegistry, row: dict[str, Value]) -> None:
    registry.put_if("pk", "sk", row)
    found = content(registry.get("pk", "sk"))
    assert found == row
    assert {name: type(value) for name, value in (found or {}).items()} == {
        name: type(value) for name, value in row.items()
    }


def test_the_ends_of_every_type_come_back_as_they_were(registry: CalledLikeRegistry) -> None:
    row: Row = {
        "least": -(2**63),
        "most": 2**63 - 1,
        "zero": 0,
        "no text": "",
        "no bytes": b"",
        "text": "\0 \x7f ß 漢 \U0001f600 \" \\ '",
        "bytes": bytes(range(256)),
        "like bytes": '{"base64": "AA=="}',
        "big": b"x" * 300_000,
    }
    registry.put_if("pk", "sk", row)
    assert content(registry.get("pk", "sk")) == row


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, True, 1.5, None, [1], "\ud800"])
def test_what_is_no_value_is_refused(registry: CalledLikeRegistry, value: object) -> None:
    registry.put_if("pk", "sk", {"a": 1})
    with pytest.raises(Invalid):
        registry.put_if("pk", "new", {"a": value})  # type: ignore[dict-item]
    with pytest.raises(Invalid):
        registry.update_if("pk", "sk", {"a": value})  # type: ignore[dict-item]
    assert registry.get("pk", "new") is None
    assert content(registry.get("pk", "sk")) == {"a": 1}


@pytest.mark.parametrize(
    ("pk", "sk"), [("", "sk"), ("pk", ""), ("pk", "x" * 1025), ("\ud800", "s")]
)
def test_what_is_no_row_key_is_refused(registry: CalledLikeRegistry, pk: str, sk: str) -> None:
    with pytest.raises(Invalid):
        registry.put_if(pk, sk, A_ROW)
    with pytest.raises(Invalid):
        registry.get(pk, sk)


@pytest.mark.parametrize("row", [{"pk": 1}, {"sk": "x"}, {"": 1}, {"big": "x" * 400_001}])
def test_what_is_no_row_is_refused(registry: CalledLikeRegistry, row: Row) -> None:
    with pytest.raises(Invalid):
        registry.put_if("pk", "sk", row)
    assert registry.get("pk", "sk") is None


def test_a_row_cannot_grow_too_big_by_updates(registry: CalledLikeRegistry) -> None:
    registry.put_if("pk", "sk", {"a": "x" * 300_000})
    with pytest.raises(Invalid):
        registry.update_if("pk", "sk", {"b": "x" * 300_000})
    assert content(registry.get("pk", "sk")) == {"a": "x" * 300_000}


def test_a_put_replaces_the_whole_row(registry: CalledLikeRegistry) -> None:
    registry.put_if("pk", "sk", A_ROW)
    registry.put_if("pk", "sk", {"other": 1})
    assert content(registry.get("pk", "sk")) == {"other": 1}


def test_an_update_keeps_the_other_attributes(registry: CalledLikeRegistry) -> None:
    registry.put_if("pk", "sk", A_ROW)
    registry.update_if("pk", "sk", {"number": 6, "new": b"n"})
    assert content(registry.get("pk", "sk")) == {**A_ROW, "number": 6, "new": b"n"}


@pytest.mark.parametrize("conditions", [(), (RowAbsent(),), (RowExists(),)])
def test_an_update_or_delete_of_no_row_fails_its_condition(
    registry: CalledLikeRegistry, conditions: tuple[Condition, ...]
) -> None:
    with pytest.raises(ConditionFailed) as updated:
        registry.update_if("pk", "sk", {"a": 1}, *conditions)
    with pytest.raises(ConditionFailed) as deleted:
        registry.delete_if("pk", "sk", *conditions)
    assert updated.value.current is deleted.value.current is None
    assert registry.get("pk", "sk") is None


def test_a_deleted_row_is_gone(registry: CalledLikeRegistry) -> None:
    registry.put_if("pk", "sk", A_ROW)
    registry.put_if("pk", "sk2", A_ROW)
    registry.delete_if("pk", "sk", Comparison("number", "=", 5))
    assert registry.get("pk", "sk") is None
    assert [sk for sk, _ in registry.query("pk")] == ["sk2"]
    registry.put_if("pk", "sk", A_ROW, RowAbsent())


@pytest.mark.parametrize(
    ("attribute", "less", "same", "more"),
    [
        ("text", "Z", "m", "ma"),
        ("text", "", "m", "ß"),
        ("number", -6, 5, 2**63 - 1),
        ("number", 4, 5, 10),
        ("data", b"\x7f\xff", b"\x80", b"\x80\x00"),
        ("data", b"", b"\x80", b"\xff"),
    ],
)
def test_each_operator_compares_values_of_one_type(
    registry: CalledLikeRegistry, attribute: str, less: Value, same: Value, more: Value
) -> None:
    registry.put_if("pk", "sk", A_ROW)
    expected = {
        "=": (False, True, False),
        "!=": (True, False, True),
        "<": (False, False, True),
        "<=": (False, True, True),
        ">": (True, False, False),
        ">=": (True, True, False),
    }
    for operator, answers in expected.items():
        for value, answer in zip((less, same, more), answers, strict=True):
            term = Comparison(attribute, operator, value)  # type: ignore[arg-type]
            assert accepts(registry, term) == answer, term


@pytest.mark.parametrize("operator", ["=", "!=", "<", "<=", ">", ">="])
def test_a_missing_attribute_or_another_type_makes_every_term_false(
    registry: CalledLikeRegistry, operator: str
) -> None:
    registry.put_if("pk", "sk", A_ROW)
    for attribute, value in [
        ("missing", "m"),
        ("missing", 0),
        ("text", 5),
        ("text", b"m"),
        ("number", "5"),
        ("number", b"5"),
        ("data", "\x80"),
        ("data", 128),
    ]:
        term = Comparison(attribute, operator, value)  # type: ignore[arg-type]
        assert not accepts(registry, term), term


def accepts(registry: CalledLikeRegistry, term: Condition) -> bool:
    try:
        registry.update_if("pk", "sk", {"touched": 1}, term)
    except ConditionFailed:
        return False
    return True


def test_all_terms_must_hold(registry: CalledLikeRegistry) -> None:
    registry.put_if("pk", "sk", A_ROW)
    true, false = Comparison("number", "=", 5), Comparison("text", "=", "n")
    for conditions in ((true, false), (false, true), (RowExists(), false), (RowAbsent(), true)):
        with pytest.raises(ConditionFailed):
            registry.put_if("pk", "sk", {"changed": 1}, *conditions)
    registry.put_if("pk", "sk", {"changed": 1}, RowExists(), true, Comparison("text", "=", "m"))
    assert content(registry.get("pk", "sk")) == {"changed": 1}


def test_absence_and_existence_are_terms(registry: CalledLikeRegistry) -> None:
    with pytest.raises(ConditionFailed):
        registry.put_if("pk", "sk", A_ROW, RowExists())
    with pytest.raises(ConditionFailed):
        registry.put_if("pk", "sk", A_ROW, Comparison("a", "!=", 1))
    registry.put_if("pk", "sk", A_ROW, RowAbsent())
    with pytest.raises(ConditionFailed):
        registry.put_if("pk", "sk", {"a": 2}, RowAbsent())
    with pytest.raises(ConditionFailed):
        registry.delete_if("pk", "sk", RowAbsent())
    assert content(registry.get("pk", "sk")) == A_ROW


def test_a_failed_condition_shows_the_row_as_it_stands(registry: CalledLikeRegistry) -> None:
    registry.put_if("pk", "sk", A_ROW)
    never = Comparison("number", "=", 6)
    with pytest.raises(ConditionFailed) as put:
        registry.put_if("pk", "sk", {"a": 1}, never)
    with pytest.raises(ConditionFailed) as updated:
        registry.update_if("pk", "sk", {"a": 1}, never)
    with pytest.raises(ConditionFailed) as deleted:
        registry.delete_if("pk", "sk", never)
    stands = registry.get("pk", "sk")
    assert content(stands) == A_ROW
    assert put.value.current == updated.value.current == deleted.value.current == stands


def test_a_query_is_in_order_of_the_sort_key(registry: CalledLikeRegistry) -> None:
    sort_keys = ["b", "a/10", "a/2", "a/1", "a", "Z", "\U0001f600", "\uff5e", "ä", "a\0", "a/1/x"]
    for sk in sort_keys:
        registry.put_if("pk", sk, {"sk was": sk})
    registry.put_if("other", "a", {"sk was": "none of these"})
    found = registry.query("pk")
    assert [sk for sk, _ in found] == sorted(sort_keys, key=str.encode)
    assert all(content(row) == {"sk was": sk} for sk, row in found)
    assert [sk for sk, _ in registry.query("pk", "a/1")] == ["a/1", "a/1/x", "a/10"]
    assert not registry.query("pk", "c")
    assert not registry.query("none")


def test_a_query_finds_more_rows_than_a_page_holds(rows: BlockingRowStore) -> None:
    numbers = [f"n/{number:04}" for number in range(25)]
    for sk in ["m/9", *numbers, "o/0"]:
        rows.put_if("pk", sk, {"sk was": sk}, (), "w")
    for limit in (1, 7, 25, 26):
        found: list[str] = []
        after: str | None = None
        while page := rows.query("pk", "n/", after=after, limit=limit):
            assert len(page) <= limit
            found += [sk for sk, _ in page]
            after = found[-1]
            if len(page) < limit:
                break
        assert found == numbers


def test_a_page_begins_after_the_given_sort_key(rows: BlockingRowStore) -> None:
    for sk in ("a", "b/1", "b/2", "c"):
        rows.put_if("pk", sk, {}, (), "w")

    def page(prefix: str, after: str, limit: int = 10) -> list[str]:
        return [sk for sk, _ in rows.query("pk", prefix, after=after, limit=limit)]

    assert page("", "a") == ["b/1", "b/2", "c"]
    assert page("b", "a") == page("b", "") == ["b/1", "b/2"]
    assert page("b", "b/1") == page("b", "b/10") == ["b/2"]
    assert page("b", "c") == page("", "c") == []
    assert page("", "a", limit=1) == ["b/1"]
    for limit in (0, -1):
        with pytest.raises(Invalid):
            page("", "a", limit)


def test_every_write_leaves_its_id_in_the_row(rows: BlockingRowStore) -> None:
    rows.put_if("pk", "sk", {"a": 1}, (), "first")
    assert (rows.get("pk", "sk") or {})[WRITE_ID] == "first"
    rows.update_if("pk", "sk", {"b": 1}, (), "second")
    assert (rows.get("pk", "sk") or {})[WRITE_ID] == "second"
    with pytest.raises(ConditionFailed) as failed:
        rows.put_if("pk", "sk", {"a": 2}, (RowAbsent(),), "third")
    assert failed.value.current == {"a": 1, "b": 1, WRITE_ID: "second"}
    # A row that was read may be put back as it is: the new write's id counts.
    rows.put_if("pk", "sk", failed.value.current, (Comparison(WRITE_ID, "=", "second"),), "fourth")
    assert (rows.get("pk", "sk") or {})[WRITE_ID] == "fourth"


@pytest.mark.slow
def test_of_racing_puts_exactly_one_finds_no_row(registry: CalledLikeRegistry, race: Race) -> None:
    for number in range(50):
        sk = f"{number:04}"

        def attempt(racer: int, sk: str = sk) -> bool:
            try:
                registry.put_if("race", sk, {"racer": racer}, RowAbsent())
            except ConditionFailed as failed:
                assert failed.current is not None
                return False
            return True

        won = race(attempt)
        assert sum(won) == 1
        assert content(registry.get("race", sk)) == {"racer": won.index(True)}


@pytest.mark.slow
def test_a_counter_raised_by_racers_misses_nothing(
    registry: CalledLikeRegistry, race: Race
) -> None:
    each = 10
    registry.put_if("pk", "counter", {"value": 0})

    def raise_it(racer: int) -> list[int]:
        drawn: list[int] = []
        while len(drawn) < each:
            row = registry.get("pk", "counter")
            assert row is not None
            value = row["value"]
            assert isinstance(value, int)
            try:
                registry.update_if(
                    "pk", "counter", {"value": value + 1}, Comparison("value", "=", value)
                )
            except ConditionFailed:
                continue
            drawn.append(value)
        return drawn

    drawn = [value for values in race(raise_it) for value in values]
    assert sorted(drawn) == list(range(each * 8))
    assert content(registry.get("pk", "counter")) == {"value": each * 8}
