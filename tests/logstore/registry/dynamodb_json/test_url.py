"""URLs of DynamoDB registries: what they may say, and the one form that is stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Invalid
from logstore.registry.dynamodb_json.url import TableUrl, is_table_url, parse_table_url, same_place

REGIONS = st.none() | st.from_regex(r"[a-z]{2}-[a-z]{4,9}-[1-9]", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("dynamodb://logs", TableUrl("logs")),
        ("dynamodb://Logs_1.a-b/", TableUrl("Logs_1.a-b")),
        ("dynamodb://logs?region=eu-west-1", TableUrl("logs", "eu-west-1")),
        ("dynamodb://logs?region=&endpoint=", TableUrl("logs")),
        (
            "dynamodb://logs?endpoint=http%3A%2F%2Flocalhost%3A8000/&region=x",
            TableUrl("logs", "x", "http://localhost:8000"),
        ),
        ("dynamodb://logs?endpoint=https://[::1]:80", TableUrl("logs", None, "https://[::1]:80")),
    ],
)
def test_a_url_says_table_region_and_endpoint(text: str, url: TableUrl) -> None:
    assert is_table_url(text)
    assert parse_table_url(text) == url


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sqlite:registry.db", "not the URL"),
        ("dynamodb:logs", "not the URL"),
        ("dynamodb://", "not the name"),
        ("dynamodb://ab", "not the name"),
        ("dynamodb://logs:8000", "not the name"),
        ("dynamodb://logs/more", "nothing may follow"),
        ("dynamodb://logs#more", "nothing may follow"),
        ("dynamodb://key:secret@logs", "no credentials"),
        ("dynamodb://logs?endpoint=http://key:secret@host", "no credentials"),
        ("dynamodb://logs?profile=x", "name=profile"),
        ("dynamodb://logs?region=a&region=b", "twice"),
        ("dynamodb://logs?region=EU", "not the name of a region"),
        ("dynamodb://logs?endpoint=localhost:8000", "not an endpoint"),
        ("dynamodb://logs?endpoint=http://host:port", "not a URL"),
        ("dynamodb://[logs", "not a URL"),
    ],
)
def test_what_is_wrong_with_a_url_is_said(text: str, why: str) -> None:
    with pytest.raises(Invalid, match=why) as refused:
        parse_table_url(text)
    assert "secret" not in str(refused.value)


@given(
    st.from_regex(r"[a-zA-Z0-9_.-]{3,20}", fullmatch=True),
    REGIONS,
    st.none() | st.sampled_from(["http://127.0.0.1:8000", "https://host.example/path"]),
)
def test_the_stored_form_reads_back(table: str, region: str | None, endpoint: str | None) -> None:
    url = TableUrl(table, region, endpoint)
    assert parse_table_url(str(url)) == url


def test_a_region_that_is_not_said_may_be_any() -> None:
    somewhere, here, there = (TableUrl("logs", region) for region in (None, "a", "b"))
    assert same_place(somewhere, here)
    assert same_place(here, here)
    assert not same_place(here, there)
    assert not same_place(somewhere, TableUrl("logs", None, "http://localhost:8000"))
    assert not same_place(somewhere, TableUrl("Logs"))
