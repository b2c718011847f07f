"""Errors of stores have no secret, whichever server repeats it."""

import pytest

from logstore.masked import KNOWN_MAX, MASK, masked, note_secrets
from logstore.objects.credentials import AwsCredentials
from logstore.objects.s3_answers import answer_of
from logstore.registry.dynamodb_json.errors import refusal

TOKEN = "FwoGZXIvYXdzE/canary+token=="
SECRET = "canary/secret+key/of/forty/characters1234"
CANONICAL = (
    "The Canonical String for this request should have been 'POST\n/\n\nhost:dynamodb\n"
    f"x-amz-security-token:{TOKEN}\nx-amz-target:GetItem' X-Amz-Signature=abcdef0123456789&a=b"
)


def test_the_session_token_that_dynamodb_repeats_is_masked() -> None:
    answer = {"Error": {"Code": "x#InvalidSignatureException", "Message": CANONICAL}}
    text = str(refusal(answer, "operation=get_item", writes=False))
    assert TOKEN not in text
    assert "abcdef0123456789" not in text
    assert f"x-amz-security-token:{MASK}" in text
    assert "x-amz-target:GetItem" in text


def test_secrets_that_were_used_are_masked_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIACANARY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    AwsCredentials()()
    said = f"non-2xx status code: 403 <Code>X</Code><Message>you sent {SECRET} {TOKEN}</Message>"
    assert answer_of(said).message == f"you sent {MASK} {MASK}"


def test_short_texts_are_no_secrets_and_few_are_kept() -> None:
    note_secrets("", "key", None)
    assert masked("the key is there") == "the key is there"
    note_secrets(*(f"secret-number-{number}" for number in range(KNOWN_MAX + 1)))
    assert masked("secret-number-0;") == "secret-number-0;"
    assert masked(f"secret-number-{KNOWN_MAX};") == f"{MASK};"
