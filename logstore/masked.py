"""Texts of stores without secrets: a server may repeat in an error what was sent to it.

AWS itself does: of a signature that is wrong, DynamoDB answers with the canonical request, which
has the session token. Secrets that this process has used are masked by value, others by their name.
"""

import re

MASK = "(hidden)"
KNOWN_MAX = 64
LENGTH_MIN = 8
"""A shorter text is no secret of AWS, and may stand anywhere."""

_NAMED = re.compile(
    r"((?:x-amz-security-token|x-amz-signature|signature|secret_?access_?key|session_?token)"
    r"[\"']?\s*[:=]\s*[\"']?)[^\s\"'&,;<]+",
    re.IGNORECASE,
)
_known: dict[str, None] = {}


def note_secrets(*texts: str | None) -> None:
    """Mask these from now on; of very many the first ones are forgotten."""
    for text in texts:
        if text is not None and len(text) >= LENGTH_MIN:
            _known.pop(text, None)
            _known[text] = None
            if len(_known) > KNOWN_MAX:
                del _known[next(iter(_known))]


def masked(text: str) -> str:
    """Returns `text` without secrets."""
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return _NAMED.sub(rf"\1{MASK}", text)
