"""Keys: what may name an object."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Invalid
from logstore.objects.keys import check_key, check_prefix, folders_of, is_key

KEYS = st.from_regex(
    re.compile(r"[a-z0-9_=-][a-z0-9_=. -]{0,9}(/[a-z0-9_=-][a-z0-9_=. -]{0,9}){0,4}", re.ASCII),
    fullmatch=True,
)


@given(key=KEYS)
def test_every_beginning_of_a_key_may_be_listed(key: str) -> None:
    check_key(key)
    for end in range(len(key) + 1):
        check_prefix(key[:end])


@given(text=st.text(st.sampled_from("a./\\\0\nä "), max_size=8))
def test_a_key_names_a_file_below_the_root_and_nothing_else(text: str) -> None:
    parts = text.split("/")
    fine = all(part and part[0] != "." and set(part) <= set("a. ") for part in parts)
    assert is_key(text) == fine
    if not fine:
        with pytest.raises(Invalid):
            check_key(text)


def test_folders_are_the_proper_path_prefixes() -> None:
    assert folders_of("a") == []
    assert folders_of("a/b/c") == ["a", "a/b"]


def test_the_keys_of_the_log_and_of_its_tables_are_keys() -> None:
    for key in (
        "cluster.json",
        "chains/7f/00000000000000000012/00000000000000000345",
        "tables/6d1b/partition=3/part-00000-0a1b.c000.zstd.parquet",
        "tables/6d1b/_delta_log/00000000000000000000.json",
    ):
        check_key(key)
