r"""Text for people's eyes: names that strangers chose cannot steer a terminal. Pure.

Clients choose names of topics and groups, their ids and hosts; servers choose the texts of their
errors. A character that is not visible (ESC, BEL, a line's end, one that turns the direction of
writing) is shown as its escape, such as `\x1b`, in JSON as `\u001b`.
"""

import json


def printable(text: str) -> str:
    """Returns `text` on one line, with the escapes of all that is not visible."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def json_text(value: object, indent: int | None = None) -> str:
    """Returns the JSON of `value`; what it means is unchanged by the escapes."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else _json_escape(one) for one in text)


def _json_escape(letter: str) -> str:
    return json.dumps(letter, ensure_ascii=True)[1:-1] if ord(letter) != 0x7F else "\\u007f"
